//! On a GPU: what failures are told as. In a process of its own: one whose kernel was at an illegal address can use the GPU no more, as
//! NVIDIA's documentation has it. Run by `tests/gpu/run`.

use hark_cuda::cuda::{CudaDevice, CudaOptions};
use hark_cuda::device::{Device, Entries, KvCache, StepEntry, as_bytes};
use hark_whisper::backend::BackendError;

fn open() -> Result<CudaDevice, BackendError> {
    let folders = std::env::var_os("HARK_CUDA_LIBRARIES").map(|list| std::env::split_paths(&list).collect());
    let cache = std::env::var_os("HARK_CUDA_CACHE").map(Into::into);
    Ok(CudaDevice::open(&CudaOptions { ordinal: 0, libraries: folders.unwrap_or_default(), cache })?)
}

/// Attention of one entry whose KV cache is said to be in `row`, of a cache of one row.
fn attend(device: &CudaDevice, row: u32) -> Result<Vec<u8>, BackendError> {
    let (layers, positions, width) = (4, 448, 1280);
    let numbers = device.allocate(layers * positions * 2 * width * 2)?;
    let [entries, past] = [device.allocate(16)?, device.allocate(positions * 2)?];
    let [from, to] = [device.allocate(3 * width * 2)?, device.allocate(width * 2)?];
    device.upload(as_bytes(&StepEntry { token: 0, position: 7, row, slot: 0 }.words()), &entries)?;
    let cache = KvCache { numbers, layers, positions, width };
    let entries = Entries { count: 1, entries: &entries, past: &past, are_distinct: true, groups: None };
    device.self_attention(&entries, &from, &cache, 0, &to)?;
    let mut result = vec![1; width * 2];
    device.download(&to, &mut result)?;
    Ok(result)
}

#[test]
fn failures_are_told_and_a_lost_device_says_so_until_the_process_ends() {
    let device = open().expect("a GPU");
    assert!(matches!(device.allocate(1 << 50), Err(BackendError::OutOfMemory(_))));
    assert!(attend(&device, 0).expect("it still works").iter().all(|byte| *byte == 0));

    // Memory that nobody has.
    let lost = attend(&device, 60_000).expect_err("the launch fails");
    assert!(matches!(lost, BackendError::DeviceLost(_)), "{lost:?}");
    assert!(attend(&device, 0).is_err(), "its contents are lost");
    assert!(device.free_memory().is_err(), "which its health tells");

    drop(device);
    let again = open().map(|device| device.name()).expect_err("it can't be opened again in this process");
    assert!(matches!(again, BackendError::DeviceLost(_)), "{again:?}");
}

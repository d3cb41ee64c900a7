//! The kernels compile for the architectures that they are made for, without a GPU. Needs the catalogue's `cuda-compiler`.

use hark_cuda::cuda;
use hark_models::ModelStore;

#[test]
#[ignore = "needs cuda-compiler"]
fn kernels_compile_for_ampere_ada_and_hopper() {
    let folder = ModelStore::default_dir().join("cuda-compiler");
    for architecture in ["sm_80", "sm_89", "sm_90a"] {
        let files = cuda::compile_all(architecture, std::slice::from_ref(&folder)).expect("kernels compile");
        assert!(files.len() >= 4 && files.iter().all(|(_, bytes)| *bytes > 1000), "{files:?}");
    }
    let error = cuda::compile_all("sm_10", &[folder]).expect_err("there is no such architecture").to_string();
    assert!(error.contains("do not compile"), "{error}");
}

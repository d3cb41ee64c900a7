//! Small networks written by the tests: passes, caches, external data, and what is refused. Needs the catalogue's `onnxruntime`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hark_models::ModelStore;
use hark_onnx::testing::{Element, Graph, Size, Value};
use hark_onnx::{CATALOGUE_NAME, Kind, LIBRARY, Network, OnnxError, Runtime, Tensor};

const NEVER: &(dyn Fn() -> bool + Sync) = &|| false;

fn runtime() -> Runtime {
    let library = ModelStore::default_dir().join(CATALOGUE_NAME).join(LIBRARY);
    Runtime::load(&library).expect("`./hark test` installs what tests need")
}

/// `y = x @ w`, a cache that a row is put behind, and the place of each row's largest number.
fn network(folder: &Path, is_external: bool) -> PathBuf {
    let mut graph = Graph::new(1);
    graph.input("x", Element::F32, &[Size::Any("rows"), Size::Is(4)]);
    graph.input("past", Element::F16, &[Size::Any("past"), Size::Is(3)]);
    graph.output("y", Element::F32, &[Size::Any("rows"), Size::Is(8)]);
    graph.output("present", Element::F16, &[Size::Any("present"), Size::Is(3)]);
    graph.output("largest", Element::I64, &[Size::Any("rows")]);
    let weights: Vec<f32> = (0..32).map(|at| at as f32).collect();
    graph.floats("w", &[4, 8], &weights);
    graph.floats("one", &[1, 3], &[0.5; 3]);
    graph.node("MatMul", &["x", "w"], &["y"], &[]);
    graph.node("Cast", &["one"], &["row"], &[("to", Value::Int(10))]);
    graph.node("Concat", &["past", "row"], &["present"], &[("axis", Value::Int(0))]);
    graph.node("ArgMax", &["y"], &["largest"], &[("axis", Value::Int(1)), ("keepdims", Value::Int(0))]);
    let path = folder.join("net.onnx");
    if is_external {
        graph.write_external(&path)
    } else {
        graph.write(&path)
    }
    path
}

#[test]
#[ignore = "needs onnxruntime"]
fn a_pass_multiplies_and_its_cache_goes_back_in_without_being_read() {
    let folder = tempfile::tempdir().unwrap();
    for is_external in [false, true] {
        let path = network(folder.path(), is_external);
        let mut net = Network::load(&runtime(), &path, 2).unwrap();
        assert_eq!(net.input("x", Kind::F32, 2).unwrap().shape, [None, Some(4)]);
        assert_eq!(net.output("present", Kind::F16, 2).unwrap().shape, [None, Some(3)]);
        let x = Tensor::f32(&[2, 4], vec![1.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0]).unwrap();
        let mut past = Tensor::zeros(Kind::F16, &[0, 3]).unwrap();
        for pass in 1..4 {
            let mut outputs = net.run(&[("past", &past), ("x", &x)], NEVER).unwrap();
            past = outputs.take("present").unwrap();
            assert_eq!(past.shape(), [pass, 3]);
            let y = outputs.take("y").unwrap();
            assert_eq!(y.shape(), [2, 8]);
            let row: Vec<f32> = (0..8).map(|at| at as f32).collect();
            let second: Vec<f32> = (16..24).map(|at| -(at as f32)).collect();
            assert_eq!(y.as_f32().unwrap(), [row, second].concat());
            assert_eq!(outputs.take("largest").unwrap().as_i64().unwrap(), [7, 0]);
            assert!(outputs.take("y").is_err(), "it was taken");
            assert!(matches!(past.as_f32(), Err(OnnxError::Kind { wanted: Kind::F32, .. })));
        }
    }
}

#[test]
#[ignore = "needs onnxruntime"]
fn what_is_missing_or_different_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = network(folder.path(), true);
    let net = Network::load(&runtime(), &path, 1).unwrap();
    let wrong = net.input("x", Kind::I64, 2).unwrap_err().to_string();
    assert!(wrong.contains("net.onnx") && wrong.contains("x does not hold 64-bit integers"), "{wrong}");
    let wrong = net.output("y", Kind::F32, 3).unwrap_err().to_string();
    assert!(wrong.contains("y has 2 dimensions, not 3"), "{wrong}");
    assert!(net.input("z", Kind::F32, 1).unwrap_err().to_string().contains("no input z"));
    drop(net);
    // Weights that are shorter than the graph says, and none at all.
    let data = path.with_file_name("net.onnx_data");
    std::fs::write(&data, [0; 7]).unwrap();
    assert!(matches!(Network::load(&runtime(), &path, 1), Err(OnnxError::Unloadable { .. })));
    std::fs::remove_file(&data).unwrap();
    let missing = Network::load(&runtime(), &path, 1).unwrap_err().to_string();
    assert!(missing.contains("net.onnx") && !missing.contains('\n'), "{missing}");
    std::fs::write(&path, b"no network").unwrap();
    assert!(matches!(Network::load(&runtime(), &path, 1), Err(OnnxError::Unloadable { .. })));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(Network::load(&runtime(), &path, 1), Err(OnnxError::Missing { .. })));
}

#[test]
#[ignore = "needs onnxruntime"]
fn inputs_that_do_not_fit_are_refused_and_the_network_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut net = Network::load(&runtime(), &network(folder.path(), false), 1).unwrap();
    let past = Tensor::zeros(Kind::F16, &[0, 3]).unwrap();
    let narrow = Tensor::f32(&[1, 3], vec![0.0; 3]).unwrap();
    let wrong = net.run(&[("x", &narrow), ("past", &past)], NEVER).unwrap_err();
    assert!(matches!(wrong, OnnxError::Failed { .. }), "{wrong}");
    let integers = Tensor::i64(&[1, 4], vec![0; 4]).unwrap();
    assert!(matches!(net.run(&[("x", &integers), ("past", &past)], NEVER), Err(OnnxError::Failed { .. })));
    let x = Tensor::f32(&[1, 4], vec![0.0; 4]).unwrap();
    assert!(matches!(net.run(&[("x", &x)], NEVER), Err(OnnxError::Failed { .. })));
    assert!(net.run(&[("x", &x), ("past", &past)], NEVER).is_ok());
}

#[test]
#[ignore = "needs onnxruntime"]
fn a_long_pass_ends_soon_after_it_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let mut graph = Graph::new(2);
    graph.input("x", Element::F32, &[Size::Any("rows"), Size::Is(64)]);
    graph.output("y", Element::F32, &[Size::Any("rows"), Size::Is(64)]);
    graph.random("w", &[64, 64], 0.1);
    let layers = 4000;
    for layer in 0..layers {
        let name = |layer: usize| if layer == 0 { "x".to_owned() } else { format!("h{layer}") };
        let out = if layer + 1 == layers { "y".to_owned() } else { name(layer + 1) };
        graph.node("MatMul", &[&name(layer), "w"], &[&out], &[]);
    }
    let path = folder.path().join("deep.onnx");
    graph.write(&path);
    let mut net = Network::load(&runtime(), &path, 1).unwrap();
    let rows = 20_000;
    let x = Tensor::f32(&[rows, 64], vec![0.5; rows * 64]).unwrap();
    let asked = AtomicUsize::new(0);
    let is_cancelled = || asked.fetch_add(1, Ordering::Relaxed) > 5;
    let begun = Instant::now();
    assert!(matches!(net.run(&[("x", &x)], &is_cancelled), Err(OnnxError::Cancelled)));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(asked.load(Ordering::Relaxed) > 5);
    let asked = AtomicUsize::new(0);
    assert!(matches!(net.run(&[("x", &x)], &|| asked.fetch_add(1, Ordering::Relaxed) < 1), Err(OnnxError::Cancelled)));
    assert_eq!(asked.load(Ordering::Relaxed), 1, "nothing was begun");
}

#[test]
#[ignore = "needs onnxruntime"]
fn a_process_keeps_the_library_that_it_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(LIBRARY);
    let runtime = runtime();
    assert_eq!(Runtime::load(&path).unwrap().library(), runtime.library());
}

#[test]
#[ignore = "needs onnxruntime"]
fn tensors_have_as_many_numbers_as_their_shape() {
    let _runtime = runtime();
    assert!(matches!(Tensor::f32(&[2, 3], vec![0.0; 5]), Err(OnnxError::Shape { numbers: 5, .. })));
    assert!(matches!(Tensor::i64(&[usize::MAX, 3], Vec::new()), Err(OnnxError::Shape { .. })));
    assert_eq!(Tensor::i64(&[0, 3], Vec::new()).unwrap().shape(), [0, 3]);
    assert_eq!(Tensor::zeros(Kind::F32, &[2, 2]).unwrap().as_f32().unwrap(), [0.0; 4]);
}

//! Without the library: a process of its own, since a process keeps the first that it loads.

use hark_onnx::{OnnxError, Runtime};

#[test]
fn a_library_that_is_missing_or_no_library_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libonnxruntime.so");
    assert!(matches!(Runtime::load(&path), Err(OnnxError::Missing { .. })));
    std::fs::write(&path, b"\x7fELF no library").unwrap();
    let error = Runtime::load(&path).unwrap_err();
    assert!(matches!(error, OnnxError::Library { .. }), "{error}");
    assert!(error.to_string().contains("libonnxruntime.so"), "{error}");
}

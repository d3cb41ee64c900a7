//! Small files made here: a pickle and one storage of four numbers.

use std::io::Write;

use super::*;

fn tensors(bytes: Vec<u8>) -> Result<Tensors, FileError> {
    read(&WeightsFile::from_bytes("test.pt", bytes))
}

/// A file with one tensor `w` of the given shape, over a storage of four numbers.
fn file(program: &[u8]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let plain = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    writer.start_file("any/data.pkl", plain).unwrap();
    writer.write_all(program).unwrap();
    writer.start_file("any/data/0", plain).unwrap();
    writer.write_all(&[1f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat()).unwrap();
    writer.finish().unwrap().into_inner()
}

fn text(text: &str) -> Vec<u8> {
    [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

fn program(shape: [u8; 2], strides: [u8; 2], offset: u8) -> Vec<u8> {
    let mut code = b"\x80\x02}(".to_vec();
    code.extend(text("w"));
    code.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
    code.extend(text("storage"));
    code.extend(b"ctorch\nFloatStorage\n");
    code.extend(text("0"));
    code.extend(text("cpu"));
    code.extend(b"K\x04tQ");
    code.extend([b'K', offset, b'K', shape[0], b'K', shape[1], 0x86, b'K', strides[0], b'K', strides[1], 0x86]);
    code.extend(b"\x89ccollections\nOrderedDict\n)RtRu.");
    code
}

fn error_of(program: &[u8]) -> String {
    tensors(file(program)).expect_err("the file is refused").to_string()
}

#[test]
fn a_tensor_comes_out_with_its_shape() {
    let found = tensors(file(&program([2, 2], [2, 1], 0))).unwrap();
    assert_eq!(found.floats("w", &[2, 2]).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    assert!(found.floats("w", &[4]).unwrap_err().to_string().contains("shape"));
    assert!(found.floats("v", &[4]).unwrap_err().to_string().contains("no tensor"));
    let found = tensors(file(&program([1, 2], [7, 1], 2))).unwrap();
    assert_eq!(found.floats("w", &[1, 2]).unwrap(), [3.0, 4.0]);
}

#[test]
fn tensors_beyond_their_storage_or_not_in_one_piece_are_refused() {
    assert!(error_of(&program([2, 3], [3, 1], 0)).contains("past its storage"));
    assert!(error_of(&program([2, 2], [2, 1], 1)).contains("past its storage"));
    assert!(error_of(&program([2, 2], [1, 2], 0)).contains("one piece"));
}

#[test]
fn anything_but_weights_is_refused() {
    assert!(error_of(b"\x80\x02cos\nsystem\n.").contains("os.system"));
    assert!(error_of(b"\x80\x02]\x81.").contains("instruction"));
    assert!(error_of(b"\x80\x02}(K\x01K\x02u.").contains("something else than tensors"));
    assert!(error_of(b"\x80\x02R").contains("not there"));
    assert!(error_of(b"\x80\x02}").contains("ends early"));
    assert!(error_of(b"\x80\x02h\x07.").contains("never had"));
    assert!(tensors(b"PK".to_vec()).is_err());
}

#[test]
fn a_tuple_cannot_grow_by_doubling_itself() {
    let mut code = b"\x80\x02)".to_vec();
    for _ in 0..40 {
        code.extend(b"q\x00h\x00\x86");
    }
    assert!(error_of(&code).contains("nests deeper"));
}

/// The state of a module: an ordered dictionary with versions as an attribute.
fn state(persistent: &[u8]) -> Vec<u8> {
    let mut code = b"\x80\x02ccollections\nOrderedDict\nq\x00)R(".to_vec();
    code.extend(text("w"));
    code.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
    code.extend(persistent);
    code.extend(b"tQK\x01K\x03\x85K\x01\x85\x89h\x00)RtRu}");
    code.extend(text("_metadata"));
    code.extend(b"h\x00)R(");
    code.extend(text("layer"));
    code.extend(b"}");
    code.extend(text("version"));
    code.extend(b"K\x01susb.");
    code
}

fn storage_id(dtype: &str, view: &[u8]) -> Vec<u8> {
    let kind = format!("ctorch\n{dtype}\n");
    [&text("storage")[..], kind.as_bytes(), &text("0"), &text("cpu"), b"K\x04", view].concat()
}

#[test]
fn the_state_of_a_module_is_read_without_its_attributes() {
    let found = tensors(file(&state(&storage_id("FloatStorage", b"")))).unwrap();
    assert_eq!(found.floats("w", &[3]).unwrap(), [2.0, 3.0, 4.0]);
    assert_eq!(found.len(), 1);
}

/// A file as PyTorch wrote it before 1.6.
fn legacy(dtype: &str, names: &[&str], values: &[u8]) -> Vec<u8> {
    let mut out = legacy::MAGIC.to_vec();
    out.extend(b"\x80\x02M\xe9\x03.\x80\x02}(");
    out.extend(text("little_endian"));
    out.extend(b"\x88u.");
    out.extend(state(&storage_id(dtype, b"N")));
    out.extend(b"\x80\x02](");
    names.iter().for_each(|name| out.extend(text(name)));
    out.extend(b"e.");
    out.extend(4u64.to_le_bytes());
    out.extend(values);
    out
}

#[test]
fn files_from_before_zip_archives_are_read_from_the_mapping() {
    let values = [1f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat();
    let file = WeightsFile::from_bytes("old.bin", legacy("FloatStorage", &["0"], &values));
    let found = read(&file).unwrap();
    assert_eq!(found.floats("w", &[3]).unwrap(), [2.0, 3.0, 4.0]);
    assert!(Arc::ptr_eq(found.get("w").unwrap().file(), &file), "nothing is copied");
    let found = tensors(legacy("HalfStorage", &["0"], &[0, 0x3c, 0, 0x40, 0, 0x42, 0, 0x44])).unwrap();
    assert_eq!(found.floats("w", &[3]).unwrap(), [2.0, 3.0, 4.0]);
}

#[test]
fn damaged_files_from_before_zip_archives_are_refused() {
    let values = [0; 16];
    let problem = |bytes: Vec<u8>| tensors(bytes).expect_err("it is refused").to_string();
    assert!(problem(legacy("FloatStorage", &[], &values)).contains("not in it"));
    assert!(problem(legacy("FloatStorage", &["1"], &values)).contains("does not know"));
    assert!(problem(legacy("FloatStorage", &["0"], &values[..15])).contains("past the end"));
    assert!(problem(legacy("DoubleStorage", &["0"], &values)).contains("past the end"));
    let whole = legacy("FloatStorage", &["0"], &values);
    for length in 0..whole.len() {
        assert!(tensors(whole[..length].to_vec()).is_err(), "{length} bytes");
    }
}

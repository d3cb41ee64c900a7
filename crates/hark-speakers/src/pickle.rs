//! PyTorch's files of weights: a zip archive with a pickle that names tensors, and one entry for the bytes of each.
//!
//! A pickle is a program. This reader knows only the few instructions that a dictionary of tensors needs and only the
//! four names that such a file calls; anything else is refused, and nothing is ever executed. Every length is checked
//! before memory is taken.

use std::collections::HashMap;
use std::io::{Cursor, Read};

/// Longest pickle: the real one has 133 kB.
const MOST_PROGRAM: u64 = 16 << 20;
/// Most bytes of one tensor's storage: the largest real one has 2 MB.
const MOST_STORAGE: u64 = 256 << 20;
/// Most bytes of all storages together.
const MOST_BYTES: u64 = 1 << 30;
/// Most values on the reader's stack and in its memo.
const MOST_VALUES: usize = 1 << 20;
/// Deepest nesting: the arguments of a tensor hold its shape.
const DEEPEST: usize = 2;

/// The float32 tensors of a file, by name.
#[derive(Clone)]
pub(crate) struct Tensors {
    tensors: HashMap<String, Tensor>,
}

#[derive(Clone)]
struct Tensor {
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl Tensors {
    /// Reads all float32 tensors of the file; counters (whole numbers) are left out.
    pub(crate) fn read(file: &[u8]) -> Result<Self, String> {
        let mut archive = Archive::open(file)?;
        let program = archive.entry("data.pkl", MOST_PROGRAM)?;
        let mut taken = 0;
        let mut tensors = HashMap::new();
        for (name, place) in Machine::run(&program)? {
            let Kind::Float = place.kind else {
                continue;
            };
            let bytes = archive.entry(&format!("data/{}", place.storage), MOST_STORAGE)?;
            taken += bytes.len() as u64;
            if taken > MOST_BYTES {
                return Err("its tensors are larger than any such network's".into());
            }
            let count = place.shape.iter().try_fold(1usize, |count, n| count.checked_mul(*n));
            let end = count.and_then(|count| place.offset.checked_add(count)).and_then(|end| end.checked_mul(4));
            let bytes = end.and_then(|end| bytes.get(place.offset * 4..end));
            let bytes = bytes.ok_or_else(|| format!("{name} reaches past its storage"))?;
            let values = bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
            tensors.insert(name, Tensor { shape: place.shape, values });
        }
        Ok(Tensors { tensors })
    }

    /// The numbers of the named tensor, which must have this shape.
    pub(crate) fn get(&self, name: &str, shape: &[usize]) -> Result<&[f32], String> {
        let tensor = self.tensors.get(name).ok_or_else(|| format!("it has no tensor {name}"))?;
        if tensor.shape != shape {
            return Err(format!("{name} has the shape {:?} and not {shape:?}", tensor.shape));
        }
        Ok(&tensor.values)
    }
}

/// The zip archive, whose entries stand below a folder of any name.
struct Archive<'a> {
    zip: zip::ZipArchive<Cursor<&'a [u8]>>,
    root: String,
}

impl<'a> Archive<'a> {
    fn open(file: &'a [u8]) -> Result<Self, String> {
        let zip = zip::ZipArchive::new(Cursor::new(file)).map_err(|error| error.to_string())?;
        let root = zip.file_names().find_map(|name| Some(name.ok()?.strip_suffix("data.pkl")?.to_owned()));
        Ok(Archive { root: root.ok_or("it holds no data.pkl: it is no file of PyTorch's")?, zip })
    }

    fn entry(&mut self, name: &str, limit: u64) -> Result<Vec<u8>, String> {
        let path = format!("{}{name}", self.root);
        let entry = self.zip.by_name(&path).map_err(|error| format!("{path}: {error}"))?;
        let mut bytes = Vec::new();
        let read = entry.take(limit + 1).read_to_end(&mut bytes).map_err(|error| format!("{path}: {error}"))?;
        if read as u64 > limit {
            return Err(format!("{path} is larger than the {limit} bytes it may have"));
        }
        Ok(bytes)
    }
}

/// What a storage holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Float,
    Long,
}

/// Where a tensor's numbers lie.
#[derive(Debug, Clone)]
struct Place {
    kind: Kind,
    storage: String,
    offset: usize,
    shape: Vec<usize>,
}

#[derive(Debug, Clone)]
enum Value {
    Number(usize),
    Text(String),
    Tuple(Vec<Value>),
    /// Other things that a tensor is made with and that do not matter: a flag, an empty dictionary of hooks.
    Aside,
    Storage(Kind),
    Rebuild,
    OrderedDict,
    Stored(Kind, String),
    Tensor(Place),
    /// The dictionary that the file is.
    Dictionary,
    Mark,
}

/// Runs the few instructions.
struct Machine<'a> {
    rest: &'a [u8],
    stack: Vec<Value>,
    memo: HashMap<u32, Value>,
    found: Vec<(String, Place)>,
}

impl<'a> Machine<'a> {
    fn run(program: &'a [u8]) -> Result<Vec<(String, Place)>, String> {
        let mut machine = Machine { rest: program, stack: Vec::new(), memo: HashMap::new(), found: Vec::new() };
        while machine.step()? {
            if machine.stack.len() > MOST_VALUES || machine.memo.len() > MOST_VALUES {
                return Err("its pickle holds too many values".into());
            }
        }
        match machine.stack[..] {
            [Value::Dictionary] => Ok(machine.found),
            _ => Err("its pickle is no dictionary of tensors".into()),
        }
    }

    fn step(&mut self) -> Result<bool, String> {
        let [code] = self.take()?;
        match code {
            // PROTO and its version.
            0x80 => {
                let [_version] = self.take()?;
            }
            b'.' => return Ok(false),
            b'(' => self.stack.push(Value::Mark),
            b'}' => self.stack.push(Value::Dictionary),
            b')' => self.stack.push(Value::Tuple(Vec::new())),
            // NEWTRUE, NEWFALSE, NONE.
            0x88 | 0x89 | b'N' => self.stack.push(Value::Aside),
            b'K' => {
                let [number] = self.take()?;
                self.stack.push(Value::Number(number.into()));
            }
            b'M' => {
                let number = u16::from_le_bytes(self.take()?);
                self.stack.push(Value::Number(number.into()));
            }
            b'J' => {
                let number = i32::from_le_bytes(self.take()?);
                let number = usize::try_from(number).map_err(|_| "a number in its pickle is negative")?;
                self.stack.push(Value::Number(number));
            }
            b'X' => {
                let length = u32::from_le_bytes(self.take()?) as usize;
                let text = self.rest.split_off(..length).ok_or("its pickle ends early")?;
                let text = std::str::from_utf8(text).map_err(|_| "a name in its pickle is no text")?;
                self.stack.push(Value::Text(text.to_owned()));
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.stack.push(match (module, name) {
                    ("torch._utils", "_rebuild_tensor_v2") => Value::Rebuild,
                    ("torch", "FloatStorage") => Value::Storage(Kind::Float),
                    ("torch", "LongStorage") => Value::Storage(Kind::Long),
                    ("collections", "OrderedDict") => Value::OrderedDict,
                    _ => return Err(format!("its pickle calls {module}.{name}, which weights do not need")),
                });
            }
            b'q' => {
                let [slot] = self.take()?;
                self.remember(slot.into())?;
            }
            b'r' => {
                let slot = u32::from_le_bytes(self.take()?);
                self.remember(slot)?;
            }
            b'h' => {
                let [slot] = self.take()?;
                self.recall(slot.into())?;
            }
            b'j' => {
                let slot = u32::from_le_bytes(self.take()?);
                self.recall(slot)?;
            }
            0x85 => self.tuple_of(1)?,
            0x86 => self.tuple_of(2)?,
            0x87 => self.tuple_of(3)?,
            b't' => {
                let parts = self.since_mark()?;
                self.push_tuple(parts)?;
            }
            b'Q' => self.persistent()?,
            b'R' => self.reduce()?,
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set_items(vec![key, value])?;
            }
            b'u' => {
                let items = self.since_mark()?;
                self.set_items(items)?;
            }
            other => return Err(format!("its pickle has the instruction {other:#04x}, which weights do not need")),
        }
        Ok(true)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let bytes = self.rest.split_off(..N).ok_or("its pickle ends early")?;
        Ok(*bytes.first_chunk().expect("as many were taken"))
    }

    fn line(&mut self) -> Result<&'a str, String> {
        let end =
            self.rest.iter().take(256).position(|byte| *byte == b'\n').ok_or("a name in its pickle has no end")?;
        let line = self.rest.split_off(..end).expect("the end was found");
        self.rest = &self.rest[1..];
        std::str::from_utf8(line).map_err(|_| "a name in its pickle is no text".into())
    }

    fn pop(&mut self) -> Result<Value, String> {
        self.stack.pop().ok_or_else(|| "its pickle takes what is not there".into())
    }

    fn since_mark(&mut self) -> Result<Vec<Value>, String> {
        let mark = self.stack.iter().rposition(|value| matches!(value, Value::Mark));
        let parts = self.stack.split_off(mark.ok_or("its pickle takes what is not there")? + 1);
        self.stack.pop();
        Ok(parts)
    }

    fn tuple_of(&mut self, count: usize) -> Result<(), String> {
        let first = self.stack.len().checked_sub(count).ok_or("its pickle takes what is not there")?;
        let parts = self.stack.split_off(first);
        self.push_tuple(parts)
    }

    fn push_tuple(&mut self, parts: Vec<Value>) -> Result<(), String> {
        fn depth(value: &Value) -> usize {
            match value {
                Value::Tuple(parts) => 1 + parts.iter().map(depth).max().unwrap_or(0),
                _ => 0,
            }
        }
        // Tuples of tuples could grow without end by being remembered and doubled.
        if parts.len() > 64 || parts.iter().any(|part| depth(part) >= DEEPEST) {
            return Err("its pickle nests deeper than weights do".into());
        }
        self.stack.push(Value::Tuple(parts));
        Ok(())
    }

    fn remember(&mut self, slot: u32) -> Result<(), String> {
        let value = self.stack.last().cloned().ok_or("its pickle takes what is not there")?;
        self.memo.insert(slot, value);
        Ok(())
    }

    fn recall(&mut self, slot: u32) -> Result<(), String> {
        let value = self.memo.get(&slot).cloned().ok_or("its pickle recalls what it never had")?;
        self.stack.push(value);
        Ok(())
    }

    /// `("storage", kind, name, device, length)` names a storage.
    fn persistent(&mut self) -> Result<(), String> {
        let Value::Tuple(parts) = self.pop()? else {
            return Err("its pickle names a storage in an unknown way".into());
        };
        match &parts[..] {
            [Value::Text(storage), Value::Storage(kind), Value::Text(name), Value::Text(_), Value::Number(_)]
                if storage == "storage" =>
            {
                self.stack.push(Value::Stored(*kind, name.clone()));
                Ok(())
            }
            _ => Err("its pickle names a storage in an unknown way".into()),
        }
    }

    /// A tensor from its storage, or an empty dictionary.
    fn reduce(&mut self) -> Result<(), String> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Value::Tuple(arguments) = arguments else {
            return Err("its pickle calls something without arguments".into());
        };
        let made = match (function, &arguments[..]) {
            (Value::OrderedDict, []) => Value::Aside,
            (
                Value::Rebuild,
                [Value::Stored(kind, storage), Value::Number(offset), Value::Tuple(shape), Value::Tuple(strides), ..],
            ) => {
                let (shape, strides) = (numbers(shape)?, numbers(strides)?);
                let mut expected = 1usize;
                for (size, stride) in shape.iter().zip(&strides).rev() {
                    if *size != 1 && *stride != expected {
                        return Err("a tensor does not lie in one piece".into());
                    }
                    expected = expected.checked_mul(*size).ok_or("a tensor has an absurd shape")?;
                }
                if shape.len() != strides.len() {
                    return Err("a tensor's shape and strides differ".into());
                }
                Value::Tensor(Place { kind: *kind, storage: storage.clone(), offset: *offset, shape })
            }
            _ => return Err("its pickle calls something that weights do not need".into()),
        };
        self.stack.push(made);
        Ok(())
    }

    fn set_items(&mut self, items: Vec<Value>) -> Result<(), String> {
        if !matches!(self.stack.last(), Some(Value::Dictionary)) || !items.len().is_multiple_of(2) {
            return Err("its pickle fills what is no dictionary".into());
        }
        for pair in items.as_chunks::<2>().0 {
            let [Value::Text(name), Value::Tensor(place)] = pair else {
                return Err("its dictionary holds something else than tensors".into());
            };
            self.found.push((name.clone(), place.clone()));
        }
        Ok(())
    }
}

fn numbers(values: &[Value]) -> Result<Vec<usize>, String> {
    let number = |value: &Value| match value {
        Value::Number(number) => Ok(*number),
        _ => Err("a shape in its pickle is made of something else than numbers".to_owned()),
    };
    values.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

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
        Tensors::read(&file(program)).err().expect("the file is refused")
    }

    #[test]
    fn a_tensor_comes_out_with_its_shape() {
        let tensors = Tensors::read(&file(&program([2, 2], [2, 1], 0))).unwrap();
        assert_eq!(tensors.get("w", &[2, 2]).unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert!(tensors.get("w", &[4]).unwrap_err().contains("shape"));
        assert!(tensors.get("v", &[4]).unwrap_err().contains("no tensor"));
        let tensors = Tensors::read(&file(&program([1, 2], [7, 1], 2))).unwrap();
        assert_eq!(tensors.get("w", &[1, 2]).unwrap(), [3.0, 4.0]);
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
        assert!(Tensors::read(b"PK").is_err());
    }

    #[test]
    fn a_tuple_cannot_grow_by_doubling_itself() {
        let mut code = b"\x80\x02)".to_vec();
        for _ in 0..40 {
            code.extend(b"q\x00h\x00\x86");
        }
        assert!(error_of(&code).contains("nests deeper"));
    }
}

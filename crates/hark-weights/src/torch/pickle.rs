//! The few instructions of Python's pickle that a dictionary of tensors needs.
//!
//! A pickle is a program. This interpreter knows only those instructions and the names that such a file calls; anything
//! else is refused, and nothing is ever executed. Every length is checked before memory is allocated.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{Dtype, MAX_TENSORS};

/// Most values on the stack and in the memo.
const MAX_VALUES: usize = 1 << 20;
/// Deepest nesting: the arguments of a tensor hold its shape.
const MAX_DEPTH: usize = 2;

/// Where a tensor's values lie.
#[derive(Debug, Clone)]
pub(super) struct Placement {
    pub(super) dtype: Dtype,
    /// The archive's entry that holds them.
    pub(super) storage: Arc<str>,
    /// The first value, counted in values.
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
}

/// Runs the program of a pickle: the tensors of the dictionary that it makes.
pub(super) fn run(program: &[u8]) -> Result<Vec<(Arc<str>, Placement)>, String> {
    let mut machine = Machine { rest: program, stack: Vec::new(), memo: HashMap::new(), found: Vec::new() };
    while machine.step()? {
        if machine.stack.len() > MAX_VALUES || machine.memo.len() > MAX_VALUES {
            return Err("its pickle holds too many values".into());
        }
    }
    match machine.stack[..] {
        [Value::Dictionary] => Ok(machine.found),
        _ => Err("its pickle is no dictionary of tensors".into()),
    }
}

#[derive(Debug, Clone)]
enum Value {
    Number(usize),
    /// Shared, as a tuple is: the memo can repeat them a million times.
    Text(Arc<str>),
    Tuple(Arc<[Value]>),
    /// An argument of a tensor that does not matter: a flag, an empty dictionary of hooks.
    Ignored,
    StorageType(Dtype),
    Rebuild,
    OrderedDict,
    Storage(Dtype, Arc<str>),
    Tensor(Placement),
    /// The dictionary that the file is.
    Dictionary,
    Mark,
}

/// Runs the few instructions.
struct Machine<'a> {
    rest: &'a [u8],
    stack: Vec<Value>,
    memo: HashMap<u32, Value>,
    found: Vec<(Arc<str>, Placement)>,
}

impl<'a> Machine<'a> {
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
            b')' => self.stack.push(Value::Tuple(Arc::new([]))),
            // NEWTRUE, NEWFALSE, NONE.
            0x88 | 0x89 | b'N' => self.stack.push(Value::Ignored),
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
                self.stack.push(Value::Text(text.into()));
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                let unknown = || format!("its pickle calls {module}.{name}, which weights do not need");
                self.stack.push(match (module, name) {
                    ("torch._utils", "_rebuild_tensor_v2") => Value::Rebuild,
                    ("collections", "OrderedDict") => Value::OrderedDict,
                    ("torch", class) => Value::StorageType(storage_type(class).ok_or_else(unknown)?),
                    _ => return Err(unknown()),
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
        if parts.len() > 64 || parts.iter().any(|part| depth(part) >= MAX_DEPTH) {
            return Err("its pickle nests deeper than weights do".into());
        }
        self.stack.push(Value::Tuple(parts.into()));
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
            [Value::Text(storage), Value::StorageType(dtype), Value::Text(name), Value::Text(_), Value::Number(_)]
                if **storage == *"storage" =>
            {
                self.stack.push(Value::Storage(*dtype, name.clone()));
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
            (Value::OrderedDict, []) => Value::Ignored,
            (
                Value::Rebuild,
                [Value::Storage(dtype, storage), Value::Number(offset), Value::Tuple(shape), Value::Tuple(strides), ..],
            ) => {
                let (shape, strides) = (numbers(shape)?, numbers(strides)?);
                if shape.len() != strides.len() {
                    return Err("a tensor's shape and strides differ".into());
                }
                let mut expected = 1usize;
                for (size, stride) in shape.iter().zip(&strides).rev() {
                    if *size != 1 && *stride != expected {
                        return Err("a tensor does not lie in one piece".into());
                    }
                    expected = expected.checked_mul(*size).ok_or("a tensor has an impossible shape")?;
                }
                Value::Tensor(Placement { dtype: *dtype, storage: storage.clone(), offset: *offset, shape })
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
            let [Value::Text(name), Value::Tensor(placement)] = pair else {
                return Err("its dictionary holds something else than tensors".into());
            };
            if self.found.len() >= MAX_TENSORS {
                return Err("its dictionary holds too many tensors".into());
            }
            self.found.push((name.clone(), placement.clone()));
        }
        Ok(())
    }
}

/// The type of a storage's values by the name of its class.
fn storage_type(class: &str) -> Option<Dtype> {
    Some(match class {
        "DoubleStorage" => Dtype::F64,
        "FloatStorage" => Dtype::F32,
        "HalfStorage" => Dtype::F16,
        "BFloat16Storage" => Dtype::Bf16,
        "LongStorage" => Dtype::I64,
        "IntStorage" => Dtype::I32,
        "ShortStorage" => Dtype::I16,
        "CharStorage" => Dtype::I8,
        "ByteStorage" => Dtype::U8,
        _ => return None,
    })
}

fn numbers(values: &[Value]) -> Result<Vec<usize>, String> {
    let number = |value: &Value| match value {
        Value::Number(number) => Ok(*number),
        _ => Err("a shape in its pickle is made of something else than numbers".to_owned()),
    };
    values.iter().map(number).collect()
}

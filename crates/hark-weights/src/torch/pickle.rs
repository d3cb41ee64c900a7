//! The few instructions of Python's pickle that a dictionary of tensors needs.
//!
//! A pickle is a program. This interpreter knows only those instructions and the names that such a file calls; anything
//! else is refused, and nothing is ever executed. Every length is checked before memory is allocated.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{Dtype, MAX_TENSORS};

/// Most values on the stack, in the memo and in dictionaries and lists.
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

/// What a pickle made.
pub(super) struct Pickled<'a> {
    value: Value,
    containers: Vec<Vec<Value>>,
    /// The type of each storage that it names.
    pub(super) storages: HashMap<Arc<str>, Dtype>,
    /// What follows it.
    pub(super) rest: &'a [u8],
}

/// Runs the program of a pickle.
pub(super) fn run(program: &[u8]) -> Result<Pickled<'_>, String> {
    let mut machine = Machine {
        rest: program,
        stack: Vec::new(),
        memo: HashMap::new(),
        containers: Vec::new(),
        contained: 0,
        storages: HashMap::new(),
    };
    while machine.step()? {
        let most = machine.stack.len().max(machine.memo.len()).max(machine.contained).max(machine.containers.len());
        if most > MAX_VALUES {
            return Err("its pickle holds too many values".into());
        }
    }
    let value = machine.pop()?;
    match machine.stack.is_empty() {
        true => {
            let Machine { containers, storages, rest, .. } = machine;
            Ok(Pickled { value, containers, storages, rest })
        }
        false => Err("its pickle makes more than one thing".into()),
    }
}

impl Pickled<'_> {
    /// The tensors of the dictionary that it is.
    pub(super) fn tensors(&self) -> Result<Vec<(Arc<str>, Placement)>, String> {
        let Value::Dictionary(index) = self.value else {
            return Err("its pickle is no dictionary of tensors".into());
        };
        let pairs = self.containers[index].as_chunks::<2>().0;
        if pairs.len() > MAX_TENSORS {
            return Err("its dictionary holds too many tensors".into());
        }
        let tensor = |pair: &[Value; 2]| match pair {
            [Value::Text(name), Value::Tensor(placement)] => Ok((name.clone(), placement.clone())),
            _ => Err("its dictionary holds something else than tensors".to_owned()),
        };
        pairs.iter().map(tensor).collect()
    }

    /// The texts of the list that it is.
    pub(super) fn texts(&self) -> Result<Vec<Arc<str>>, String> {
        let Value::List(index) = self.value else {
            return Err("its pickle is no list of names".into());
        };
        let text = |value: &Value| match value {
            Value::Text(text) => Ok(text.clone()),
            _ => Err("its list holds something else than names".to_owned()),
        };
        self.containers[index].iter().map(text).collect()
    }
}

#[derive(Debug, Clone)]
enum Value {
    Number(usize),
    /// Shared, as a tuple is: the memo can repeat them a million times.
    Text(Arc<str>),
    Tuple(Arc<[Value]>),
    /// What does not matter: a flag, nothing at all.
    Ignored,
    StorageType(Dtype),
    Rebuild,
    OrderedDict,
    Storage(Dtype, Arc<str>),
    Tensor(Placement),
    /// The number of a container whose values are keys and values in turn.
    Dictionary(usize),
    /// The number of a container.
    List(usize),
    Mark,
}

/// Runs the few instructions.
struct Machine<'a> {
    rest: &'a [u8],
    stack: Vec<Value>,
    memo: HashMap<u32, Value>,
    /// The contents of dictionaries and lists, which may be filled after they were remembered.
    containers: Vec<Vec<Value>>,
    /// Values in all of them.
    contained: usize,
    storages: HashMap<Arc<str>, Dtype>,
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
            b'}' => self.push_container(Value::Dictionary),
            b']' => self.push_container(Value::List),
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
            b'a' => {
                let value = self.pop()?;
                self.append(vec![value])?;
            }
            b'e' => {
                let values = self.since_mark()?;
                self.append(values)?;
            }
            // BUILD gives a dictionary attributes, such as the versions of modules.
            b'b' => {
                let attributes = self.pop()?;
                let (Value::Dictionary(_), Some(Value::Dictionary(_))) = (attributes, self.stack.last()) else {
                    return Err("its pickle builds something that weights do not need".into());
                };
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

    fn push_container(&mut self, kind: impl Fn(usize) -> Value) {
        self.stack.push(kind(self.containers.len()));
        self.containers.push(Vec::new());
    }

    /// `("storage", kind, name, device, length)` names a storage; older files say behind it that it is no view of another.
    fn persistent(&mut self) -> Result<(), String> {
        let unknown = || "its pickle names a storage in an unknown way".to_owned();
        let Value::Tuple(parts) = self.pop()? else { return Err(unknown()) };
        let (parts, view) = parts.split_at_checked(5).ok_or_else(unknown)?;
        let [Value::Text(storage), Value::StorageType(dtype), Value::Text(name), Value::Text(_), Value::Number(_)] =
            parts
        else {
            return Err(unknown());
        };
        if **storage != *"storage" || !matches!(view, [] | [Value::Ignored]) {
            return Err(unknown());
        }
        if *self.storages.entry(name.clone()).or_insert(*dtype) != *dtype {
            return Err("its pickle gives a storage two types".into());
        }
        self.stack.push(Value::Storage(*dtype, name.clone()));
        Ok(())
    }

    /// A tensor from its storage, or an empty dictionary.
    fn reduce(&mut self) -> Result<(), String> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Value::Tuple(arguments) = arguments else {
            return Err("its pickle calls something without arguments".into());
        };
        let made = match (function, &arguments[..]) {
            (Value::OrderedDict, []) => {
                self.push_container(Value::Dictionary);
                return Ok(());
            }
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
        match self.stack.last() {
            Some(Value::Dictionary(index)) if items.len().is_multiple_of(2) => {
                self.contained += items.len();
                self.containers[*index].extend(items);
                Ok(())
            }
            _ => Err("its pickle fills what is no dictionary".into()),
        }
    }

    fn append(&mut self, values: Vec<Value>) -> Result<(), String> {
        match self.stack.last() {
            Some(Value::List(index)) => {
                self.contained += values.len();
                self.containers[*index].extend(values);
                Ok(())
            }
            _ => Err("its pickle fills what is no list".into()),
        }
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

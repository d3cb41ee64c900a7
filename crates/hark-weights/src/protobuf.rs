//! Just enough of the protobuf wire format to walk an ONNX file or a SentencePiece model without copying it.

/// One field of a message.
#[derive(Debug, Clone, Copy)]
pub enum Field<'a> {
    /// A variable-length integer.
    Number(u64),
    /// Text, bytes, a packed list or a message inside this one.
    Bytes(&'a [u8]),
    /// Four bytes: a float.
    Four([u8; 4]),
    /// Eight bytes: a double.
    Eight,
}

/// The fields of a message in their order; ends early with an error when the bytes make no sense.
pub struct Fields<'a> {
    rest: &'a [u8],
    broken: bool,
}

/// The message's bytes are not protobuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

impl<'a> Fields<'a> {
    /// The fields of the message in these bytes.
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message, broken: false }
    }

    fn read(&mut self) -> Option<(u32, Field<'a>)> {
        let key = varint(&mut self.rest)?;
        let number = u32::try_from(key >> 3).ok()?;
        let field = match key & 7 {
            0 => Field::Number(varint(&mut self.rest)?),
            1 => {
                self.rest.split_off(..8)?;
                Field::Eight
            }
            2 => {
                let length = usize::try_from(varint(&mut self.rest)?).ok()?;
                Field::Bytes(self.rest.split_off(..length)?)
            }
            5 => Field::Four(*self.rest.split_off(..4)?.first_chunk()?),
            _ => return None,
        };
        Some((number, field))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Field<'a>), Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.broken {
            return None;
        }
        let field = self.read();
        self.broken = field.is_none();
        Some(field.ok_or(Broken))
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.split_off_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The integers of a repeated field, which may come one by one or packed.
pub fn integers(field: Field<'_>, into: &mut Vec<u64>) -> Result<(), Broken> {
    match field {
        Field::Number(value) => into.push(value),
        Field::Bytes(mut packed) => {
            while !packed.is_empty() {
                into.push(varint(&mut packed).ok_or(Broken)?);
            }
        }
        _ => return Err(Broken),
    }
    Ok(())
}

/// The floats of a repeated field, which may come one by one or packed.
pub fn floats(field: Field<'_>, into: &mut Vec<f32>) -> Result<(), Broken> {
    match field {
        Field::Four(bytes) => into.push(f32::from_le_bytes(bytes)),
        Field::Bytes(packed) => {
            let (chunks, rest) = packed.as_chunks::<4>();
            if !rest.is_empty() {
                return Err(Broken);
            }
            into.extend(chunks.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        }
        _ => return Err(Broken),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_end_with_an_error_where_the_bytes_do() {
        // field 1 varint 300, field 2 bytes "ab", then a length that runs past the end
        let bytes = [0x08, 0xac, 0x02, 0x12, 2, b'a', b'b', 0x12, 9, 0];
        let fields: Vec<_> = Fields::new(&bytes).collect();
        assert!(matches!(fields[0], Ok((1, Field::Number(300)))));
        assert!(matches!(fields[1], Ok((2, Field::Bytes(b"ab")))));
        assert!(matches!(fields[2], Err(Broken)));
        assert_eq!(fields.len(), 3);
    }

    #[test]
    fn an_integer_that_never_ends_is_broken() {
        let bytes = [0xff; 64];
        assert!(Fields::new(&bytes).next().unwrap().is_err());
    }
}

// SPDX-License-Identifier: Apache-2.0
//! A zero-copy reader of the Protobuf wire format.
//!
//! A generated reader would copy every weight and turn two bytes of an empty message into a structure of hundreds; here
//! a field is a slice of the file, so that a hostile file costs no more memory than its own size. The meaning of the
//! fields is known to the callers, such as `onnx_proto` and `external_data`.

/// Where and why the bytes are no protobuf message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// Place in the file, in bytes.
    pub at: usize,
    /// What is wrong there, such as `a length beyond the end of its message`.
    pub what: &'static str,
}

/// A message: its bytes, and where they begin in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// One field of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    /// Its number in the schema.
    pub(super) number: u64,
    /// Place of its value in the file.
    pub(super) at: usize,
    /// All of it as it stands in the file, with number and length.
    pub(super) encoded: &'a [u8],
    value: Value<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Four or eight bytes of fixed length, such as floats.
    Fixed,
}

impl<'a> Message<'a> {
    /// The outermost message of a file.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Its fields in the order of the file. Ends after the first damage.
    pub(super) fn fields(self) -> Fields<'a> {
        Fields {
            rest: self.bytes,
            at: self.at,
        }
    }
}

impl<'a> Field<'a> {
    /// A whole number; signed ones are stored as 64-bit two's complement.
    ///
    /// # Errors
    /// The field holds something else.
    pub(super) fn number(self) -> Result<i64, Malformed> {
        match self.value {
            Value::Number(number) => Ok(number.cast_signed()),
            _ => Err(self.malformed("text where a whole number belongs")),
        }
    }

    /// Raw bytes.
    ///
    /// # Errors
    /// The field holds a number.
    pub(super) fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(self.malformed("a number where text or a message belongs")),
        }
    }

    /// Text.
    ///
    /// # Errors
    /// The field holds a number, or bytes that are not UTF-8.
    pub(super) fn text(self) -> Result<&'a str, Malformed> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map_err(|_| self.malformed("text that is not UTF-8"))
    }

    /// A message in the message.
    ///
    /// # Errors
    /// The field holds a number.
    pub(super) fn message(self) -> Result<Message<'a>, Malformed> {
        let bytes = self.bytes()?;
        Ok(Message { bytes, at: self.at })
    }

    /// Hands each number of a repeated field to `take`: one, or many packed into one field.
    ///
    /// # Errors
    /// The field holds something else, or the first error of `take`.
    pub(super) fn numbers(
        self,
        mut take: impl FnMut(i64) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let mut packed = match self.value {
            Value::Bytes(bytes) => Fields {
                rest: bytes,
                at: self.at,
            },
            _ => return take(self.number()?),
        };
        while !packed.rest.is_empty() {
            take(packed.varint()?.cast_signed())?;
        }
        Ok(())
    }

    /// Damage at this field.
    pub(super) fn malformed(self, what: &'static str) -> Malformed {
        Malformed { at: self.at, what }
    }
}

/// The fields of a message, one after the other.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Result<Field<'a>, Malformed> {
        let (start, all) = (self.at, self.rest);
        let damage = |what| Malformed { at: start, what };
        let key = self.varint()?;
        let number = key >> 3;
        if number == 0 {
            return Err(damage("a field without a number"));
        }
        let mut at = self.at;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 | 5 => {
                self.read_bytes(if key & 7 == 1 { 8 } else { 4 })?;
                Value::Fixed
            }
            2 => {
                let len = self.varint()?;
                at = self.at;
                // A length that does not fit the machine's words is beyond every end too.
                Value::Bytes(self.read_bytes(usize::try_from(len).unwrap_or(usize::MAX))?)
            }
            _ => return Err(damage("a kind of field that is obsolete or unknown")),
        };
        Ok(Field {
            number,
            at,
            encoded: &all[..self.at - start],
            value,
        })
    }

    fn read_bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let Some((prefix, rest)) = self.rest.split_at_checked(len) else {
            return Err(Malformed {
                at: self.at,
                what: "a length beyond the end of its message",
            });
        };
        self.rest = rest;
        self.at += len;
        Ok(prefix)
    }

    /// A number of 1 to 10 bytes, seven bits in each, lowest first.
    fn varint(&mut self) -> Result<u64, Malformed> {
        let start = self.at;
        let mut number = 0_u64;
        for place in 0..10 {
            let byte = self.read_bytes(1)?[0];
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed {
            at: start,
            what: "a number of more than ten bytes",
        })
    }
}

/// What stands before the value of a field of `len` bytes: its number and that length.
pub(super) fn field_header(number: u64, len: usize) -> Vec<u8> {
    varints(&[number << 3 | 2, len as u64])
}

/// A field that holds a whole number.
pub(super) fn number_field(number: u64, value: u64) -> Vec<u8> {
    varints(&[number << 3, value])
}

fn varints(values: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(12);
    for mut value in values.iter().copied() {
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_error(bytes: &[u8]) -> Option<Malformed> {
        Message::new(bytes).fields().find_map(Result::err)
    }

    #[test]
    fn protobuf_fields_are_read_in_place() {
        // 1: 300, 2: "ab", 3: {1: -1}, 4: a float, 5: packed 1, 2, 300.
        let bytes = [
            &[0x08, 0xac, 0x02, 0x12, 2, b'a', b'b', 0x1a, 11, 0x08][..],
            &[0xff; 9],
            &[0x01, 0x25, 0, 0, 0, 0, 0x2a, 4, 1, 2, 0xac, 0x02],
        ]
        .concat();
        let fields: Vec<Field<'_>> = Message::new(&bytes)
            .fields()
            .collect::<Result<_, _>>()
            .expect("it is whole");
        let numbers: Vec<u64> = fields.iter().map(|field| field.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5]);
        assert_eq!(fields[0].number(), Ok(300));
        assert_eq!((fields[1].text(), fields[1].at), (Ok("ab"), 5));
        let inner = fields[2].message().expect("a message").fields().next();
        let inner = inner.expect("one field").expect("it is whole");
        assert_eq!((inner.number(), inner.at), (Ok(-1), 10));
        let mut packed = Vec::new();
        let all = fields[4].numbers(|number| {
            packed.push(number);
            Ok(())
        });
        assert_eq!((all, packed), (Ok(()), vec![1, 2, 300]));
        assert!(fields[0].text().is_err() && fields[1].number().is_err());
        assert!(fields[3].number().is_err() && fields[3].bytes().is_err());
    }

    #[test]
    fn malformed_bytes_are_reported_with_their_offset() {
        #[rustfmt::skip]
        let cases: [(&[u8], usize, &str); 6] = [
            (&[0x08, 1, 0x12, 5, b'a'], 4, "a length beyond"),
            (&[0x12, 0xff, 0xff, 0xff, 0xff, 0x0f], 6, "a length beyond"),
            (&[0x08], 1, "a length beyond"),
            (&[0x08, 1, 0x0b], 2, "a kind of field"),
            (&[0x02, 0], 0, "a field without"),
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], 1, "a number of"),
        ];
        for (bytes, at, what) in cases {
            let found = first_error(bytes).expect(what);
            assert!(found.at == at && found.what.starts_with(what), "{found:?}");
        }
    }
}

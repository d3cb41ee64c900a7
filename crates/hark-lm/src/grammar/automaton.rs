//! The stack that reads JSON byte by byte.

use super::schema::{FRACTION, FRACTION_DIGITS};
use super::{Grammar, Node, NodeId, NumberRange};

/// Digits before the point.
const MAX_DIGITS: u32 = 14;

/// What is to be read, the innermost last.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stack {
    frames: Vec<Frame>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Frame {
    /// A value from its first byte on.
    Value(NodeId),
    /// This byte.
    Byte(u8),
    /// An object behind its brace or behind a value; `next` is the first property that may follow.
    Members {
        node: NodeId,
        next: u32,
        is_first: bool,
    },
    /// A key of an object: property `base + i` is a candidate while bit `i` is set; `at` bytes were read.
    Key {
        node: NodeId,
        base: u32,
        candidates: u64,
        at: u32,
    },
    /// A map behind its brace or behind a value.
    Entries {
        value: NodeId,
        is_first: bool,
    },
    /// An array behind so many items.
    Items {
        node: NodeId,
        count: u32,
    },
    /// Text behind its quotation mark.
    Text {
        min: u32,
        max: u32,
        count: u32,
        state: TextState,
    },
    /// One of the literals from `low` to `high`, which begin with the `at` bytes that were read.
    Literal {
        node: NodeId,
        low: u32,
        high: u32,
        at: u32,
    },
    Number {
        node: NodeId,
        number: Number,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum TextState {
    Plain,
    /// Behind a backslash.
    Escape,
    /// Inside of a character: bytes that are left, and what the next may be.
    Character {
        left: u8,
        low: u8,
        high: u8,
    },
}

/// The part of a number that was read.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Number {
    is_negative: bool,
    phase: Phase,
    integer: i64,
    digits: u32,
    fraction: i64,
    fraction_digits: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Start,
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
}

/// What a byte did to the innermost frame.
enum Step {
    /// It was read.
    Read,
    /// The frame has changed and has to look at it again.
    Again,
    /// It does not fit.
    Refused,
}

impl Stack {
    pub(super) fn new(root: NodeId) -> Self {
        Stack { frames: vec![Frame::Value(root)] }
    }

    /// Whether everything was read.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether the text may end here: nothing is left, or a number or literal that could go on and need not.
    pub(super) fn is_complete(&self, grammar: &Grammar) -> bool {
        match self.frames[..] {
            [] => true,
            [Frame::Number { node, number }] => number.is_complete(range(grammar, node)),
            [Frame::Literal { node, low, at, .. }] => literals(grammar, node)[low as usize].len() == at as usize,
            _ => false,
        }
    }

    /// Characters that may follow where the stack is inside of a text, between two characters.
    pub(super) fn room_in_text(&self) -> Option<u32> {
        match self.frames.last() {
            Some(Frame::Text { max, count, state: TextState::Plain, .. }) => Some(max - count),
            _ => None,
        }
    }

    /// The only byte that may follow, if there is only one and the text can't end here.
    pub(super) fn only_byte(&self, grammar: &Grammar) -> Option<u8> {
        if self.is_complete(grammar) || self.room_in_text().is_some_and(|room| room > 0) {
            return None;
        }
        let (mut only, mut trial) = (None, self.clone());
        for byte in 0x20..=0xff {
            trial.frames.clone_from(&self.frames);
            if trial.advance(grammar, byte) {
                if only.is_some() {
                    return None;
                }
                only = Some(byte);
            }
        }
        only
    }

    /// Makes this a copy of another.
    pub(super) fn set(&mut self, other: &Stack) {
        self.frames.clone_from(&other.frames);
    }

    /// Reads a byte. False when it does not fit; the stack is of no use then.
    pub(super) fn advance(&mut self, grammar: &Grammar, byte: u8) -> bool {
        loop {
            match self.step(grammar, byte) {
                Step::Read => return true,
                Step::Again => {}
                Step::Refused => return false,
            }
        }
    }

    fn step(&mut self, grammar: &Grammar, byte: u8) -> Step {
        let Some(frame) = self.frames.pop() else { return Step::Refused };
        match frame {
            Frame::Byte(expected) => {
                if byte == expected {
                    Step::Read
                } else {
                    Step::Refused
                }
            }
            Frame::Value(node) => self.begin_value(grammar, node, byte),
            Frame::Members { node, next, is_first } => self.members(grammar, node, next, is_first, byte),
            Frame::Key { node, base, candidates, at } => self.key(grammar, node, base, candidates, at, byte),
            Frame::Entries { value, is_first } => self.entries(grammar, value, is_first, byte),
            Frame::Items { node, count } => self.items(grammar, node, count, byte),
            Frame::Text { min, max, count, state } => self.text(min, max, count, state, byte),
            Frame::Literal { node, low, high, at } => self.literal(grammar, node, low, high, at, byte),
            Frame::Number { node, number } => match number.advance(range(grammar, node), byte) {
                Some(number) => self.push(Frame::Number { node, number }, Step::Read),
                None if number.is_complete(range(grammar, node)) => Step::Again,
                None => Step::Refused,
            },
        }
    }

    fn push(&mut self, frame: Frame, step: Step) -> Step {
        self.frames.push(frame);
        step
    }

    /// Whether a value can be written, to its end, inside of the container whose frame was just taken. What can't is not begun: a place where only
    /// a value may come is reached only where it can be written, so that there is always a way on.
    fn has_room_inside(&self, grammar: &Grammar, node: NodeId) -> bool {
        grammar.fits(node, self.frames.len() + 1)
    }

    fn begin_value(&mut self, grammar: &Grammar, node: NodeId, byte: u8) -> Step {
        if !grammar.fits(node, self.frames.len()) {
            return Step::Refused;
        }
        match (grammar.node(node), byte) {
            (Node::Object(_), b'{') => self.push(Frame::Members { node, next: 0, is_first: true }, Step::Read),
            (Node::Map(value), b'{') => self.push(Frame::Entries { value: *value, is_first: true }, Step::Read),
            (Node::Array { .. }, b'[') => self.push(Frame::Items { node, count: 0 }, Step::Read),
            (Node::String { min, max }, b'"') => self.push(text_frame(*min, *max), Step::Read),
            (Node::Literals(texts), _) => {
                self.push(Frame::Literal { node, low: 0, high: texts.len() as u32, at: 0 }, Step::Again)
            }
            (Node::Number(_), _) => self.push(Frame::Number { node, number: Number::START }, Step::Again),
            (Node::Union(parts), _) => match parts.iter().find(|part| can_begin(grammar.node(**part), byte)) {
                Some(part) => self.push(Frame::Value(*part), Step::Again),
                None => Step::Refused,
            },
            _ => Step::Refused,
        }
    }

    fn members(&mut self, grammar: &Grammar, node: NodeId, next: u32, is_first: bool, byte: u8) -> Step {
        let Node::Object(properties) = grammar.node(node) else { return Step::Refused };
        let rest = &properties[next as usize..];
        if byte == b'}' {
            return if rest.iter().any(|property| property.is_required) { Step::Refused } else { Step::Read };
        }
        // Properties may be left out up to the first that is required.
        let count = rest.iter().position(|property| property.is_required).map_or(rest.len(), |first| first + 1);
        let candidates = rest[..count].iter().take(64).enumerate().fold(0, |candidates, (bit, property)| {
            candidates | u64::from(self.has_room_inside(grammar, property.value)) << bit
        });
        if candidates == 0 {
            return Step::Refused;
        }
        let key = Frame::Key { node, base: next, candidates, at: 0 };
        match (is_first, byte) {
            (true, b'"') => self.push(key, Step::Again),
            (false, b',') => {
                self.frames.push(key);
                self.push(Frame::Byte(b' '), Step::Read)
            }
            _ => Step::Refused,
        }
    }

    fn key(&mut self, grammar: &Grammar, node: NodeId, base: u32, candidates: u64, at: u32, byte: u8) -> Step {
        let Node::Object(properties) = grammar.node(node) else { return Step::Refused };
        let (mut left, mut open) = (0, candidates);
        while open != 0 {
            let bit = open.trailing_zeros();
            open &= open - 1;
            let property = &properties[(base + bit) as usize];
            if property.key.get(at as usize) != Some(&byte) {
                continue;
            }
            left |= 1 << bit;
            // Keys differ before their ends, so this is the only one.
            if property.key.len() == at as usize + 1 {
                self.frames.push(Frame::Members { node, next: base + bit + 1, is_first: false });
                return self.push(Frame::Value(property.value), Step::Read);
            }
        }
        match left {
            0 => Step::Refused,
            candidates => self.push(Frame::Key { node, base, candidates, at: at + 1 }, Step::Read),
        }
    }

    fn entries(&mut self, grammar: &Grammar, value: NodeId, is_first: bool, byte: u8) -> Step {
        let is_next = match byte {
            b'}' => return Step::Read,
            _ if !self.has_room_inside(grammar, value) => return Step::Refused,
            b'"' if is_first => false,
            b',' if !is_first => true,
            _ => return Step::Refused,
        };
        let entry = [
            Frame::Entries { value, is_first: false },
            Frame::Value(value),
            Frame::Byte(b' '),
            Frame::Byte(b':'),
            text_frame(0, u32::MAX),
        ];
        self.frames.extend(entry);
        if is_next {
            self.frames.extend([Frame::Byte(b'"'), Frame::Byte(b' ')]);
        }
        Step::Read
    }

    fn items(&mut self, grammar: &Grammar, node: NodeId, count: u32, byte: u8) -> Step {
        let Node::Array { items, min, max } = grammar.node(node) else { return Step::Refused };
        if byte == b']' {
            return if count >= *min { Step::Read } else { Step::Refused };
        }
        if count >= *max || !self.has_room_inside(grammar, *items) {
            return Step::Refused;
        }
        match count {
            0 => {
                self.frames.push(Frame::Items { node, count: 1 });
                self.push(Frame::Value(*items), Step::Again)
            }
            _ if byte == b',' => {
                // A bound that is not there is never reached.
                self.frames.push(Frame::Items { node, count: count.saturating_add(1) });
                self.frames.push(Frame::Value(*items));
                self.push(Frame::Byte(b' '), Step::Read)
            }
            _ => Step::Refused,
        }
    }

    fn text(&mut self, min: u32, max: u32, count: u32, state: TextState, byte: u8) -> Step {
        let mut go_on = |count: u32, state: TextState| self.push(Frame::Text { min, max, count, state }, Step::Read);
        let character = |left: u8, low: u8, high: u8| TextState::Character { left, low, high };
        match state {
            TextState::Plain => match byte {
                b'"' => {
                    if count >= min {
                        Step::Read
                    } else {
                        Step::Refused
                    }
                }
                0..0x20 | 0x80..0xc2 | 0xf5.. => Step::Refused,
                _ if count >= max => Step::Refused,
                b'\\' => go_on(count, TextState::Escape),
                0x20..0x80 => go_on(count + 1, TextState::Plain),
                // The bytes that may follow in UTF-8: neither overlong forms nor surrogates.
                0xc2..0xe0 => go_on(count + 1, character(1, 0x80, 0xbf)),
                0xe0 => go_on(count + 1, character(2, 0xa0, 0xbf)),
                0xed => go_on(count + 1, character(2, 0x80, 0x9f)),
                0xe1..0xf0 => go_on(count + 1, character(2, 0x80, 0xbf)),
                0xf0 => go_on(count + 1, character(3, 0x90, 0xbf)),
                0xf4 => go_on(count + 1, character(3, 0x80, 0x8f)),
                0xf1..0xf5 => go_on(count + 1, character(3, 0x80, 0xbf)),
            },
            // Escapes by number are left out: characters are written as they are.
            TextState::Escape => match byte {
                b'"' | b'\\' | b'/' | b'n' | b'r' | b't' => go_on(count + 1, TextState::Plain),
                _ => Step::Refused,
            },
            TextState::Character { left, low, high } => match (low..=high).contains(&byte) {
                true if left == 1 => go_on(count, TextState::Plain),
                true => go_on(count, character(left - 1, 0x80, 0xbf)),
                false => Step::Refused,
            },
        }
    }

    fn literal(&mut self, grammar: &Grammar, node: NodeId, low: u32, high: u32, at: u32, byte: u8) -> Step {
        let texts = &literals(grammar, node)[low as usize..high as usize];
        let (place, byte_at) = (at as usize, |text: &Vec<u8>| text.get(at as usize).copied());
        // Sorted texts with a common start: those that end there, then by their next byte.
        let first = texts.partition_point(|text| byte_at(text) < Some(byte));
        let count = texts[first..].partition_point(|text| byte_at(text) == Some(byte));
        if count == 0 {
            return if texts.first().is_some_and(|text| text.len() == place) { Step::Again } else { Step::Refused };
        }
        if count == 1 && texts[first].len() == place + 1 {
            return Step::Read;
        }
        let low = low + first as u32;
        self.push(Frame::Literal { node, low, high: low + count as u32, at: at + 1 }, Step::Read)
    }
}

fn text_frame(min: u32, max: u32) -> Frame {
    Frame::Text { min, max, count: 0, state: TextState::Plain }
}

fn literals(grammar: &Grammar, node: NodeId) -> &[Vec<u8>] {
    match grammar.node(node) {
        Node::Literals(texts) => texts,
        _ => &[],
    }
}

fn range(grammar: &Grammar, node: NodeId) -> NumberRange {
    match grammar.node(node) {
        Node::Number(range) => *range,
        _ => NumberRange { is_integer: true, min: 0, max: 0 },
    }
}

/// Whether a value that is no union may begin with a byte.
fn can_begin(node: &Node, byte: u8) -> bool {
    match node {
        Node::Object(_) | Node::Map(_) => byte == b'{',
        Node::Array { .. } => byte == b'[',
        Node::String { .. } => byte == b'"',
        Node::Literals(texts) => {
            let first = texts.partition_point(|text| text.first() < Some(&byte));
            texts.get(first).is_some_and(|text| text.first() == Some(&byte))
        }
        Node::Number(_) => byte == b'-' || byte.is_ascii_digit(),
        Node::Union(_) => false,
    }
}

impl Number {
    const START: Number =
        Number { is_negative: false, phase: Phase::Start, integer: 0, digits: 0, fraction: 0, fraction_digits: 0 };

    /// The number with one more byte, if a number of the range can still come of it.
    fn advance(self, range: NumberRange, byte: u8) -> Option<Number> {
        let mut next = self;
        match (self.phase, byte) {
            (Phase::Start, b'-') => {
                next.is_negative = true;
                next.phase = Phase::Minus;
            }
            (Phase::Start | Phase::Minus, b'0') => next.phase = Phase::Zero,
            (Phase::Start | Phase::Minus, b'1'..=b'9') | (Phase::Integer, b'0'..=b'9') if self.digits < MAX_DIGITS => {
                next.integer = self.integer * 10 + i64::from(byte - b'0');
                next.digits += 1;
                next.phase = Phase::Integer;
            }
            (Phase::Zero | Phase::Integer, b'.') if !range.is_integer => next.phase = Phase::Point,
            (Phase::Point | Phase::Fraction, b'0'..=b'9') if self.fraction_digits < FRACTION_DIGITS => {
                next.fraction = self.fraction * 10 + i64::from(byte - b'0');
                next.fraction_digits += 1;
                next.phase = Phase::Fraction;
            }
            _ => return None,
        }
        next.can_reach(range).then_some(next)
    }

    /// Whether what was read is a number of the range. Minus zero is not written.
    fn is_complete(self, range: NumberRange) -> bool {
        let is_whole = matches!(self.phase, Phase::Zero | Phase::Integer | Phase::Fraction);
        let missing = 10_i64.pow(FRACTION_DIGITS - self.fraction_digits);
        let magnitude = self.integer * FRACTION + self.fraction * missing;
        is_whole && self.touches(range, magnitude, magnitude)
    }

    /// Whether one of the numbers between two magnitudes, with the sign that was read, is in the range.
    fn touches(self, range: NumberRange, low: i64, high: i64) -> bool {
        match self.is_negative {
            true => high >= 1 && -high <= range.max && -low.max(1) >= range.min,
            false => low <= range.max && high >= range.min,
        }
    }

    /// Whether more digits can make it a number of the range.
    fn can_reach(self, range: NumberRange) -> bool {
        let fraction = if range.is_integer { 0 } else { FRACTION - 1 };
        match self.phase {
            Phase::Start | Phase::Minus => self.touches(range, 0, i64::MAX),
            Phase::Zero => self.touches(range, 0, fraction),
            Phase::Integer => (0..=MAX_DIGITS - self.digits).any(|more| {
                let power = 10_i64.pow(more);
                let (low, high) = (self.integer * power, (self.integer + 1) * power - 1);
                self.touches(range, low * FRACTION, high * FRACTION + fraction)
            }),
            Phase::Point | Phase::Fraction => {
                let missing = 10_i64.pow(FRACTION_DIGITS - self.fraction_digits);
                let low = self.integer * FRACTION + self.fraction * missing;
                self.touches(range, low, low + missing - 1)
            }
        }
    }
}

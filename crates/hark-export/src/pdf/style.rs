//! How text looks on a page. Sizes are in points.

/// What a stretch of text is, and with that how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Style {
    Title,
    About,
    Speaker,
    Time,
    Body,
    PageNumber,
}

impl Style {
    pub(super) fn size(self) -> f32 {
        match self {
            Self::Title => 20.0,
            Self::Speaker | Self::Body => 10.5,
            Self::About => 9.5,
            Self::Time | Self::PageNumber => 8.5,
        }
    }

    pub(super) fn is_bold(self) -> bool {
        matches!(self, Self::Title | Self::Speaker)
    }

    /// 0 is black. What only helps to find one's way is grey, dark enough for the contrast of WCAG AA (7 : 1 here).
    pub(super) fn grey(self) -> f32 {
        match self {
            Self::Title | Self::Speaker | Self::Body => 0.0,
            Self::About | Self::Time | Self::PageNumber => 0.35,
        }
    }
}

/// The least height of a line, in sizes of its font.
pub(super) const LEADING: f32 = 1.4;

/// The greatest height of a line: fonts of scripts with stacked vowels ask for twice their size, for stacks that nearly no
/// text has, and readers take such lines for paragraphs of their own.
pub(super) const MOST_LEADING: f32 = 1.7;

/// A text of one paragraph whose parts look different.
#[derive(Debug, Clone, Default)]
pub(super) struct StyledText {
    pub(super) text: String,
    /// Where each style ends, in order.
    pub(super) styles: Vec<(usize, Style)>,
}

impl StyledText {
    pub(super) fn new(text: &str, style: Style) -> Self {
        let mut styled = Self::default();
        styled.push(text, style);
        styled
    }

    pub(super) fn push(&mut self, text: &str, style: Style) {
        self.text.push_str(text);
        self.styles.push((self.text.len(), style));
    }

    pub(super) fn style_at(&self, at: usize) -> Style {
        let found = self.styles.iter().find(|(end, _)| at < *end).or(self.styles.last());
        found.map_or(Style::Body, |(_, style)| *style)
    }
}

//! A run as a picture: one bar a system, its length the speed, with whiskers from the slowest round to the fastest.

use std::fmt::Write;

use super::report::Report;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 230.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 64.0;
const BAR: f64 = 24.0;
const STEP: f64 = 44.0;

/// The report as an SVG document.
pub fn svg(report: &Report) -> String {
    let height = TOP + STEP * report.systems.len() as f64 + 36.0;
    let fastest = report.systems.iter().map(|system| system.speed.max).fold(1.0, f64::max);
    let tick = tick_step(fastest);
    let end = (fastest / tick).ceil() * tick;
    let x = |speed: f64| LEFT + (WIDTH - LEFT - RIGHT) * speed / end;

    let mut out = String::new();
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="13">"#
    );
    let _ = writeln!(out, r##"<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>"##);
    let words = if report.words { "word times on" } else { "word times off" };
    let title = format!(
        "{}, {:.0} min of speech, {words}: seconds of audio per second",
        report.model,
        report.audio_seconds / 60.0
    );
    let _ = writeln!(
        out,
        r##"<text x="16" y="26" font-size="16" font-weight="600" fill="#1b1f24">{}</text>"##,
        escaped(&title)
    );
    let place =
        format!("{}, {} cores, median of {} rounds", report.machine.processor, report.machine.cores, report.rounds);
    let _ = writeln!(out, r##"<text x="16" y="46" fill="#57606a">{}</text>"##, escaped(&place));

    let bottom = height - 30.0;
    let mut mark = 0.0;
    while mark <= end + tick / 2.0 {
        let at = x(mark);
        let _ = writeln!(out, r##"<line x1="{at:.1}" y1="{TOP}" x2="{at:.1}" y2="{bottom}" stroke="#d8dee4"/>"##);
        let _ = writeln!(
            out,
            r##"<text x="{at:.1}" y="{:.1}" text-anchor="middle" fill="#57606a">{mark}</text>"##,
            bottom + 18.0
        );
        mark += tick;
    }
    for (index, system) in report.systems.iter().enumerate() {
        let y = TOP + STEP * index as f64 + (STEP - BAR) / 2.0;
        let middle = y + BAR / 2.0;
        let colour = match (system.is_hark, system.reference_only) {
            (true, _) => "#1f6feb",
            (_, true) => "#d0d7de",
            _ => "#8c959f",
        };
        let speed = &system.speed;
        let _ = writeln!(
            out,
            r##"<text x="{:.1}" y="{:.1}" text-anchor="end" fill="#1b1f24">{}</text>"##,
            LEFT - 10.0,
            middle - 1.0,
            escaped(&system.name)
        );
        let _ = writeln!(
            out,
            r##"<text x="{:.1}" y="{:.1}" text-anchor="end" font-size="11" fill="#57606a">{}</text>"##,
            LEFT - 10.0,
            middle + 12.0,
            escaped(&system.settings)
        );
        let _ = writeln!(
            out,
            r#"<rect x="{LEFT}" y="{y:.1}" width="{:.1}" height="{BAR}" rx="3" fill="{colour}"/>"#,
            x(speed.median) - LEFT
        );
        if speed.max > speed.min {
            let (low, high) = (x(speed.min), x(speed.max));
            let _ = writeln!(
                out,
                r##"<path d="M{low:.1} {middle:.1}H{high:.1}M{low:.1} {:.1}v10M{high:.1} {:.1}v10" stroke="#1b1f24" fill="none"/>"##,
                middle - 5.0,
                middle - 5.0
            );
        }
        let rate = system.word_error_rate.map_or(String::new(), |rate| format!(" · WER {:.1} %", rate * 100.0));
        let _ = writeln!(
            out,
            r##"<text x="{:.1}" y="{:.1}" fill="#1b1f24">{:.1} ×{rate}</text>"##,
            x(speed.max) + 8.0,
            middle + 4.5,
            speed.median
        );
    }
    out.push_str("</svg>\n");
    out
}

/// A round step (1, 2 or 5 times a power of ten) that gives three to eight marks.
fn tick_step(fastest: f64) -> f64 {
    let raw = fastest / 5.0;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= raw).unwrap_or(10.0);
    (step * power).max(1.0)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    fn bar_widths(svg: &str) -> Vec<f64> {
        let bars = svg.lines().filter(|line| line.contains("rx="));
        bars.filter_map(|line| line.split("width=\"").nth(1)?.split('"').next()?.parse().ok()).collect()
    }

    #[test]
    fn bars_are_as_long_as_the_speeds_they_stand_for() {
        let widths = bar_widths(&svg(&sample()));
        assert_eq!(widths.len(), 4);
        assert!((widths[0] / widths[1] - 20.0).abs() < 0.1, "{widths:?}");
        assert!((widths[2] / widths[1] - 24.0 / 5.0).abs() < 0.1, "{widths:?}");
    }

    #[test]
    fn names_cannot_break_out_of_the_document() {
        let svg = svg(&sample());
        assert!(svg.contains("slow &lt;peer&gt;") && !svg.contains("<peer>"));
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn marks_are_round_numbers() {
        assert_eq!((tick_step(120.0), tick_step(31.0), tick_step(9.0), tick_step(1.0)), (50.0, 10.0, 2.0, 1.0));
    }
}

//! A picture of hit ratios by size of cache: an SVG that stands alone.
//!
//! One panel a trace, one line a policy; a line's name stands at its end, so that there is no legend to
//! look things up in. Oracles are dashed and grey: they bound what is possible. The production policy is
//! thick. Colours follow the reader's light or dark scheme. Whoever cannot see it gets the ends of every
//! line as text (`desc`), and whoever points at a mark gets its numbers.

mod axis;

use std::fmt::{self, Write};

use self::axis::{SizeAxis, grouped};
use crate::curve::Curves;

/// The width of the picture; its height follows from how many panels it has.
const WIDTH: f64 = 980.0;

/// The box of the lines: its left and right edge, and its upper edge within a panel.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 740.0;
const TOP: f64 = 84.0;

/// The least height of that box, and what is below it.
const BOX_HEIGHT: f64 = 380.0;
const BELOW: f64 = 62.0;

/// Distance of two labels at the ends of lines.
const LABEL_GAP: f64 = 18.0;

/// Where these labels begin.
const LABEL_LEFT: f64 = RIGHT + 36.0;

/// Sizes up to which each has a mark.
const MOST_MARKS: usize = 40;

/// Colours in `chart.css`, besides the grey of oracles and the first, which is that of the production policy.
const COLOURS: usize = 7;

/// Colours, for light and for dark surroundings.
const STYLE: &str = include_str!("chart/chart.css");

/// The picture of these curves, one panel below another.
pub fn svg(curves: &[&Curves]) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut out, curves);
    out
}

fn write(out: &mut String, curves: &[&Curves]) -> fmt::Result {
    let height: f64 = curves.iter().map(|curves| panel_height(curves)).sum();
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"arcwell-title arcwell-desc\">"
    )?;
    let names: Vec<&str> = curves.iter().map(|curves| curves.trace.as_str()).collect();
    let title = format!("Hit ratio by size of cache: {}", names.join(", "));
    writeln!(out, "<title id=\"arcwell-title\">{}</title>", escaped(&title))?;
    let told: Vec<String> = curves.iter().map(|curves| told(curves)).collect();
    writeln!(out, "<desc id=\"arcwell-desc\">{}</desc>", escaped(&told.join(" ")))?;
    writeln!(out, "<style>\n{STYLE}</style>")?;
    writeln!(out, "<rect class=\"card\" width=\"{WIDTH}\" height=\"{height}\" rx=\"10\"/>")?;
    let mut top = 0.0;
    for curves in curves {
        writeln!(out, "<g transform=\"translate(0 {top})\">")?;
        Panel::new(curves).write(out)?;
        writeln!(out, "</g>")?;
        top += panel_height(curves);
    }
    writeln!(out, "</svg>")
}

fn box_height(curves: &Curves) -> f64 {
    BOX_HEIGHT.max(curves.policies.len() as f64 * LABEL_GAP)
}

fn panel_height(curves: &Curves) -> f64 {
    TOP + box_height(curves) + BELOW
}

/// The ends of every line, in words.
fn told(curves: &Curves) -> String {
    let size = |size: Option<&u64>| size.map_or_else(String::new, |size| axis::size(*size, curves.unit));
    let (low, high) = (size(curves.sizes.first()), size(curves.sizes.last()));
    let ends = curves.policies.iter().enumerate().map(|(place, policy)| {
        let mut line = curves.line(place).map(|(_, ratio)| 100.0 * ratio);
        let first = line.next().unwrap_or_default();
        format!("{policy} {first:.1} % to {:.1} %", line.last().unwrap_or(first))
    });
    format!("{}, from {low} to {high}: {}.", curves.trace, ends.collect::<Vec<_>>().join(", "))
}

/// One trace.
struct Panel<'a> {
    curves: &'a Curves,
    sizes: SizeAxis,
    /// Marks of the ratio, from 0, in per cent.
    percents: Vec<u32>,
    bottom: f64,
}

/// How a line looks.
struct Look {
    role: Role,
    /// The letter or number of its colour.
    colour: String,
    /// Whether a line of the same role has that colour already.
    is_again: bool,
}

/// What a line is there for; the last is drawn over the others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    /// An oracle.
    Bound,
    Other,
    /// The production policy.
    Own,
}

impl<'a> Panel<'a> {
    fn new(curves: &'a Curves) -> Panel<'a> {
        let ratios = curves.rows.iter().flatten().map(|tally| 100.0 * tally.hit_ratio());
        Panel {
            curves,
            sizes: SizeAxis::new(&curves.sizes, LEFT + 8.0, RIGHT - 8.0),
            percents: axis::percents(ratios.fold(0.0, f64::max)),
            bottom: TOP + box_height(curves),
        }
    }

    /// Where a ratio lies.
    fn height(&self, percent: f64) -> f64 {
        let highest = self.percents.last().map_or(1.0, |&highest| f64::from(highest));
        self.bottom - percent / highest * (self.bottom - TOP)
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let Curves { trace, requests, unique, policies, .. } = self.curves;
        let (requests, unique) = (grouped(*requests), grouped(u64::from(*unique)));
        writeln!(out, "<text class=\"name\" x=\"24\" y=\"36\">{}</text>", escaped(trace))?;
        let about = format!("Hits, % of requests, by size of cache · {requests} requests of {unique} blocks");
        writeln!(out, "<text x=\"24\" y=\"58\">{about}</text>")?;
        self.axes(out)?;
        let looks = looks(policies);
        let mut order: Vec<usize> = (0..looks.len()).collect();
        order.sort_by_key(|&policy| looks[policy].role);
        for policy in order {
            self.line(out, policy, &looks[policy])?;
        }
        self.labels(out, &looks)
    }

    fn axes(&self, out: &mut String) -> fmt::Result {
        for &percent in &self.percents {
            let y = self.height(f64::from(percent));
            writeln!(out, "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>")?;
            let x = LEFT - 10.0;
            writeln!(out, "<text x=\"{x}\" y=\"{:.1}\" text-anchor=\"end\">{percent}</text>", y + 4.5)?;
        }
        let unit = self.curves.unit;
        for size in self.sizes.ticks(unit) {
            let (x, y) = (self.sizes.place(size), self.bottom);
            writeln!(out, "<path class=\"grid\" d=\"M{x:.1} {y}v6\"/>")?;
            let text = axis::size(size, unit);
            writeln!(out, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>", y + 22.0)?;
        }
        let what = match unit {
            crate::trace::Unit::Blocks => "size of cache, blocks",
            crate::trace::Unit::Bytes => "size of cache",
        };
        let (x, y) = (f64::midpoint(LEFT, RIGHT), self.bottom + 46.0);
        writeln!(out, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{what}</text>")
    }

    fn line(&self, out: &mut String, policy: usize, look: &Look) -> fmt::Result {
        let colour = &look.colour;
        let more = match look.role {
            Role::Bound => " bound",
            Role::Own if look.is_again => " own again",
            Role::Own => " own",
            Role::Other if look.is_again => " again",
            Role::Other => "",
        };
        let points: Vec<_> = self.curves.line(policy).map(|(size, ratio)| (size, 100.0 * ratio)).collect();
        write!(out, "<polyline class=\"line p{colour}{more}\" points=\"")?;
        for (size, percent) in &points {
            write!(out, "{:.1},{:.1} ", self.sizes.place(*size), self.height(*percent))?;
        }
        writeln!(out, "\"/>")?;
        if points.len() > MOST_MARKS {
            return Ok(());
        }
        let name = escaped(&self.curves.policies[policy]);
        for (size, percent) in points {
            let (x, y) = (self.sizes.place(size), self.height(percent));
            let size = axis::size(size, self.curves.unit);
            writeln!(
                out,
                "<circle class=\"f{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\">\
                 <title>{name} at {size}: {percent:.2} %</title></circle>"
            )?;
        }
        Ok(())
    }

    /// The names at the ends of the lines, the best on top.
    fn labels(&self, out: &mut String, looks: &[Look]) -> fmt::Result {
        let last = |policy: usize| self.curves.line(policy).last().map_or(0.0, |(_, ratio)| 100.0 * ratio);
        let sum = |policy: usize| self.curves.line(policy).map(|(_, ratio)| ratio).sum::<f64>();
        let mut ends: Vec<(usize, f64)> = (0..looks.len()).map(|policy| (policy, last(policy))).collect();
        // Where lines end in one place, the one that came the higher way is above.
        let order = |&(policy, end): &(usize, f64), &(other, its_end): &(usize, f64)| {
            its_end.total_cmp(&end).then(sum(other).total_cmp(&sum(policy)))
        };
        ends.sort_by(order);
        let wanted: Vec<f64> = ends.iter().map(|(_, percent)| self.height(*percent)).collect();
        let places = axis::apart(&wanted, LABEL_GAP, TOP, self.bottom);
        for (((policy, percent), wanted), place) in ends.into_iter().zip(wanted).zip(places) {
            let Look { colour, is_again, .. } = &looks[policy];
            let again = if *is_again { " again" } else { "" };
            let (from, to) = (RIGHT - 3.0, LABEL_LEFT - 5.0);
            let bend = f64::midpoint(from, to);
            writeln!(
                out,
                "<path class=\"lead p{colour}{again}\" d=\"M{from} {wanted:.1}C{bend} {wanted:.1} {bend} {place:.1} \
                 {to} {place:.1}\"/>"
            )?;
            let name = escaped(&self.curves.policies[policy]);
            writeln!(
                out,
                "<text class=\"label f{colour}\" x=\"{LABEL_LEFT}\" y=\"{:.1}\">{name} {percent:.1}</text>",
                place + 4.5
            )?;
        }
        Ok(())
    }
}

/// How the line of each policy looks: no two alike, as long as there are no more than twice the colours.
fn looks(policies: &[String]) -> Vec<Look> {
    let (mut others, mut own) = (0, 0);
    let look = |policy: &String| {
        if policy.starts_with("OPT") {
            return Look { role: Role::Bound, colour: "x".to_owned(), is_again: false };
        }
        if policy.starts_with("Arcwell") {
            own += 1;
            return Look { role: Role::Own, colour: "0".to_owned(), is_again: own > 1 };
        }
        let place = others;
        others += 1;
        let colour = (1 + place % COLOURS).to_string();
        Look { role: Role::Other, colour, is_again: place / COLOURS % 2 == 1 }
    };
    policies.iter().map(look).collect()
}

/// A text as it may stand in XML, which has no place for most control characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::POLICIES;
    use crate::replay::Tally;
    use crate::trace::{Trace, Unit};

    fn curves(name: &str, unit: Unit, sizes: &[u64], policies: &[&str]) -> Curves {
        let trace = Trace::of("x", []).expect("it is empty");
        let titles = policies.iter().map(|&title| title.to_owned()).collect();
        let mut curves = Curves::new(name, &trace, unit, titles);
        for (place, &size) in sizes.iter().enumerate() {
            let hits = |policy: usize| (10 * policy + place) as u64;
            let tally = |policy| Tally { requests: 1000, hits: hits(policy), ..Tally::default() };
            curves.push(size, (0..policies.len()).map(tally).collect());
        }
        curves
    }

    /// Every number in an attribute, which is a place or a length.
    fn numbers(svg: &str) -> Vec<f64> {
        let body = svg.split("</style>").nth(1).unwrap_or_default();
        let attributes = body.lines().flat_map(|line| line.split('"').skip(1).step_by(2));
        let words = attributes.flat_map(|text| text.split([' ', ',', 'M', 'C', 'H', 'v', '(', ')']));
        words.filter_map(|word| word.parse().ok()).collect()
    }

    #[test]
    fn every_policy_has_a_line_and_a_label_and_every_run_a_mark() {
        let titles: Vec<&str> = POLICIES.iter().map(|row| row.title).collect();
        let svg = svg(&[&curves("x", Unit::Blocks, &[10, 100, 1000], &titles)]);
        for title in &titles {
            assert!(svg.contains(&format!(">{title} ")), "no label for {title}");
        }
        let count = |what: &str| svg.matches(what).count();
        assert_eq!((count("<polyline"), count("<circle")), (titles.len(), 3 * titles.len()));
        let lines: Vec<&str> = svg.lines().filter(|line| line.starts_with("<polyline")).collect();
        let looks: std::collections::HashSet<_> = lines.iter().map(|line| line.split('"').nth(1)).collect();
        // The two oracles look the same, and nobody else does.
        assert_eq!(looks.len(), titles.len() - 1);
    }

    #[test]
    fn panels_stand_below_each_other_and_are_told_in_words() {
        let one = curves("one", Unit::Blocks, &[10, 20], &["LRU", "ARC"]);
        let two = curves("two", Unit::Bytes, &[1 << 20, 1 << 30], &["OPT"]);
        let svg = svg(&[&one, &two]);
        assert_eq!(svg.matches("<g ").count(), 2);
        assert!(svg.contains("one, from 10 to 20: LRU 0.0 % to 0.1 %, ARC 1.0 % to 1.1 %. two, from 1 MiB"));
        let height = 2.0 * panel_height(&one);
        assert!(svg.contains(&format!("height=\"{height}\" role")), "{height}");
    }

    #[test]
    fn any_name_is_text() {
        let svg = svg(&[&curves("<a> & \"b\"\u{1b}[1m\n", Unit::Blocks, &[1], &["LRU"])]);
        assert!(svg.contains(">&lt;a&gt; &amp; &quot;b&quot;\u{fffd}[1m\u{fffd}</text>"), "{svg}");
    }

    #[test]
    fn whatever_is_drawn_lies_in_the_picture() {
        let many: Vec<u64> = (1..200).collect();
        for sizes in [&[][..], &[7], &[1, u64::MAX], &many] {
            for unit in [Unit::Blocks, Unit::Bytes] {
                let curves = curves("x", unit, sizes, &["LRU", "Arcwell-single", "Arcwell-multilist"]);
                let svg = svg(&[&curves]);
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                let limit = WIDTH.max(panel_height(&curves));
                assert!(numbers(&svg).len() > 20);
                let outside = numbers(&svg).into_iter().find(|number| !(-6.0..=limit).contains(number));
                assert_eq!(outside, None, "{sizes:?}");
            }
        }
    }
}

//! Pictures of curves.

use plotters::prelude::{
    BLUE, ChartBuilder, Circle, Color, IntoDrawingArea, IntoLogRange, LineSeries, SVGBackend, WHITE,
};

use crate::figure::{Curve, amount};

/// The size of a picture in pixels.
const SIZE: (u32, u32) = (640, 300);

/// Returns the name of the file of a curve's picture.
pub fn file_name(curve: &Curve) -> String {
    let words: Vec<String> = curve
        .name
        .split(|character: char| !character.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.join("-") + ".svg"
}

/// Returns the picture of a curve. Sizes grow by powers of ten; a horizontal line means that each item costs the same.
///
/// # Errors
///
/// If the curve has fewer than two points, or cannot be drawn.
pub fn svg(curve: &Curve) -> Result<String, String> {
    let (Some(first), Some(last)) = (curve.points.first(), curve.points.last()) else {
        return Err(format!("{}: no points", curve.name));
    };
    if last.0 <= first.0 {
        return Err(format!("{}: too few points", curve.name));
    }
    let highest = curve.points.iter().map(|point| point.1).fold(0.0, f64::max);
    let mut text = String::new();
    draw(curve, first.0..last.0, highest * 1.25, &mut text)
        .map_err(|error| format!("{}: {error}", curve.name))?;
    Ok(text)
}

fn draw(
    curve: &Curve,
    sizes: std::ops::Range<f64>,
    highest: f64,
    text: &mut String,
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(&curve.name, ("sans-serif", 16))
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(sizes.log_scale(), 0.0..highest)?;
    chart
        .configure_mesh()
        .x_desc(&curve.counted)
        .y_desc(&curve.unit)
        .x_label_formatter(&|size| amount(size.round()))
        .y_label_formatter(&|figure| amount(*figure))
        .draw()?;
    chart.draw_series(LineSeries::new(curve.points.iter().copied(), &BLUE))?;
    let dots = curve
        .points
        .iter()
        .map(|point| Circle::new(*point, 3, BLUE.filled()));
    chart.draw_series(dots)?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_drawn_and_named() {
        let mut curve = Curve {
            name: "Stages of one run, durable".to_owned(),
            counted: "stages".to_owned(),
            unit: "us/stage".to_owned(),
            points: vec![(1e3, 3.0), (1e4, 3.1), (1e5, 3.2)],
        };
        assert_eq!(file_name(&curve), "stages-of-one-run-durable.svg");
        let text = svg(&curve).unwrap();
        assert!(
            text.starts_with("<svg") && text.contains("us/stage") && text.contains("<circle"),
            "{text}"
        );
        curve.points.truncate(1);
        assert!(svg(&curve).unwrap_err().contains("too few points"));
    }
}

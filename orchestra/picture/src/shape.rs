//! The shapes of nodes: their size around a text, their outline, and the points at which edges meet them.

/// A point in the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

pub(crate) const fn at(x: f64, y: f64) -> Point {
    Point { x, y }
}

impl std::ops::Add for Point {
    type Output = Point;
    fn add(self, other: Point) -> Point {
        at(self.x + other.x, self.y + other.y)
    }
}

impl std::ops::Sub for Point {
    type Output = Point;
    fn sub(self, other: Point) -> Point {
        at(self.x - other.x, self.y - other.y)
    }
}

impl std::ops::Mul<f64> for Point {
    type Output = Point;
    fn mul(self, factor: f64) -> Point {
        at(self.x * factor, self.y * factor)
    }
}

impl Point {
    pub(crate) fn length(self) -> f64 {
        self.x.hypot(self.y)
    }
}

/// The border of a shape, relative to its centre.
#[derive(Clone, Debug)]
pub(crate) enum Outline {
    /// A rectangle with rounded corners: half width, half height, radius.
    Box(f64, f64, f64),
    /// An ellipse: half width and half height.
    Ellipse(f64, f64),
    Polygon(Vec<Point>),
}

/// A shape around a text.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) outline: Outline,
    /// Additional outlines inside, unfilled.
    pub(crate) inner: Vec<Outline>,
    /// Additional lines.
    pub(crate) lines: Vec<Vec<Point>>,
    /// Small filled boxes on the border: corner and size.
    pub(crate) lugs: Vec<(Point, Point)>,
    /// The centre of the text.
    pub(crate) text: Point,
    /// `true` if the shape has a border.
    pub(crate) drawn: bool,
}

impl Shape {
    fn new(width: f64, height: f64, outline: Outline) -> Shape {
        Shape {
            width,
            height,
            outline,
            inner: Vec::new(),
            lines: Vec::new(),
            lugs: Vec::new(),
            text: at(0.0, 0.0),
            drawn: true,
        }
    }

    /// Returns the shape of a name around a text of a size.
    pub(crate) fn around(name: &str, w: f64, h: f64) -> Shape {
        match name {
            "Mdiamond" | "diamond" => diamond(name == "Mdiamond", w, h),
            "Msquare" => {
                let (x, y) = half((w + 36.0).max(52.0), (h + 26.0).max(42.0));
                let cut = 11.0;
                let mut shape = Shape::new(2.0 * x, 2.0 * y, Outline::Box(x, y, 2.0));
                for (sx, sy) in [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)] {
                    shape
                        .lines
                        .push(vec![at(sx * (x - cut), sy * y), at(sx * x, sy * (y - cut))]);
                }
                shape
            }
            "hexagon" => {
                let y = (h + 22.0).max(38.0) / 2.0;
                let x = w / 2.0 + 10.0 + y * 0.55;
                let slant = y * 0.62;
                polygon(
                    x,
                    y,
                    &[
                        (-x, 0.0),
                        (slant - x, -y),
                        (x - slant, -y),
                        (x, 0.0),
                        (x - slant, y),
                        (slant - x, y),
                    ],
                )
            }
            "octagon" | "doubleoctagon" | "tripleoctagon" => {
                let rings = match name {
                    "tripleoctagon" => 3,
                    "doubleoctagon" => 2,
                    _ => 1,
                };
                let extra = f64::from(rings - 1) * 4.0;
                let y = (h + 20.0).max(38.0) / 2.0 + extra;
                let x = (w / 2.0 + 16.0).max(30.0) + extra;
                let mut shape = Shape::new(2.0 * x, 2.0 * y, octagon(x, y));
                for ring in 1..rings {
                    let inset = f64::from(ring) * 4.0;
                    shape.inner.push(octagon(x - inset, y - inset));
                }
                shape
            }
            "parallelogram" => {
                let y = (h + 20.0).max(38.0) / 2.0;
                let slant = y * 0.7;
                let x = w / 2.0 + 8.0 + slant;
                polygon(
                    x,
                    y,
                    &[(slant * 1.2 - x, -y), (x, -y), (x - slant * 1.2, y), (-x, y)],
                )
            }
            "house" => {
                let y = (h + 34.0).max(50.0) / 2.0;
                let x = (w / 2.0 + 16.0).max(34.0);
                let eaves = 15.0 - y;
                let mut shape = polygon(x, y, &[(0.0, -y), (x, eaves), (x, y), (-x, y), (-x, eaves)]);
                shape.text = at(0.0, 6.0);
                shape
            }
            "folder" | "tab" => {
                let y = (h + 30.0).max(46.0) / 2.0;
                let x = (w / 2.0 + 14.0).max(36.0);
                let tab = 9.0 - y;
                let mut shape = polygon(
                    x,
                    y,
                    &[
                        (-x, -y),
                        (26.0 - x, -y),
                        (32.0 - x, tab),
                        (x, tab),
                        (x, y),
                        (-x, y),
                    ],
                );
                shape.lines.push(vec![at(-x, tab), at(32.0 - x, tab)]);
                shape.text = at(0.0, 4.0);
                shape
            }
            "component" => {
                let y = (h + 20.0).max(40.0) / 2.0;
                let x = w / 2.0 + 20.0;
                let mut shape = Shape::new(2.0 * x + 12.0, 2.0 * y, Outline::Box(x, y, 2.0));
                for line in [-0.5, 0.5] {
                    shape.lugs.push((at(-x - 6.0, line * y - 4.0), at(12.0, 8.0)));
                }
                shape.text = at(2.0, 0.0);
                shape
            }
            "circle" | "doublecircle" | "Mcircle" => {
                let ring = if name == "doublecircle" { 4.0 } else { 0.0 };
                let radius = ((w.hypot(h) + 14.0) / 2.0).max(21.0) + ring;
                let mut shape = Shape::new(2.0 * radius, 2.0 * radius, Outline::Ellipse(radius, radius));
                if ring > 0.0 {
                    shape.inner.push(Outline::Ellipse(radius - ring, radius - ring));
                }
                shape
            }
            "ellipse" | "oval" | "egg" => {
                let (x, y) = half((w * 1.3 + 24.0).max(60.0), (h * 1.3 + 16.0).max(38.0));
                Shape::new(2.0 * x, 2.0 * y, Outline::Ellipse(x, y))
            }
            "none" | "plain" | "plaintext" => {
                let (x, y) = half(w + 12.0, h + 8.0);
                let mut shape = Shape::new(2.0 * x, 2.0 * y, Outline::Box(x, y, 0.0));
                shape.drawn = false;
                shape
            }
            _ => {
                let (x, y) = half((w + 30.0).max(72.0), (h + 20.0).max(38.0));
                Shape::new(2.0 * x, 2.0 * y, Outline::Box(x, y, 7.0))
            }
        }
    }

    /// Returns the point at which a line from the centre to a point outside leaves the shape. Both points are relative
    /// to the centre.
    pub(crate) fn border(&self, towards: Point) -> Point {
        let length = towards.length();
        if length < 1e-6 {
            return at(0.0, self.height / 2.0);
        }
        match &self.outline {
            Outline::Ellipse(x, y) => towards * (1.0 / (towards.x / x).hypot(towards.y / y)),
            Outline::Box(x, y, _) => {
                let fit = |side: f64, part: f64| {
                    if part.abs() < 1e-9 {
                        f64::MAX
                    } else {
                        side / part.abs()
                    }
                };
                // The lugs of a component protrude on its left side.
                let lug = self.lugs.first().map_or(0.0, |(corner, _)| -x - corner.x);
                let left = if towards.x < 0.0 { lug } else { 0.0 };
                towards * fit(*x + left, towards.x).min(fit(*y, towards.y))
            }
            Outline::Polygon(corners) => {
                let next = corners.iter().cycle().skip(1);
                let hit = corners
                    .iter()
                    .zip(next)
                    .filter_map(|(a, b)| crossing(towards, *a, *b))
                    .fold(0.0, f64::max);
                towards
                    * if hit > 0.0 {
                        hit
                    } else {
                        self.height / 2.0 / length
                    }
            }
        }
    }
}

/// Returns the point at which a ray from the origin meets a side, as a factor of the ray. Returns `None` if they do not
/// meet.
fn crossing(ray: Point, a: Point, b: Point) -> Option<f64> {
    let side = b - a;
    let cross = ray.x * side.y - ray.y * side.x;
    if cross.abs() < 1e-9 {
        return None;
    }
    let along = (a.x * side.y - a.y * side.x) / cross;
    let on_side = (a.x * ray.y - a.y * ray.x) / cross;
    (along > 0.0 && (-1e-6..=1.0 + 1e-6).contains(&on_side)).then_some(along)
}

fn half(width: f64, height: f64) -> (f64, f64) {
    (width / 2.0, height / 2.0)
}

fn polygon(x: f64, y: f64, corners: &[(f64, f64)]) -> Shape {
    let corners = corners.iter().map(|(x, y)| at(*x, *y)).collect();
    Shape::new(2.0 * x, 2.0 * y, Outline::Polygon(corners))
}

fn diamond(marked: bool, w: f64, h: f64) -> Shape {
    // A text fits if half its width and half its height, as fractions of the diamond's, add up to less than one.
    let (x, y) = half((w * 1.45 + 44.0).max(70.0), (h * 2.2 + 18.0).max(50.0));
    let mut shape = polygon(x, y, &[(0.0, -y), (x, 0.0), (0.0, y), (-x, 0.0)]);
    if marked {
        shape.lines = marks(x, y, 0.24);
    }
    shape
}

/// Returns the strokes across the four corners of a diamond.
fn marks(x: f64, y: f64, part: f64) -> Vec<Vec<Point>> {
    let (dx, dy) = (x * part, y * part);
    vec![
        vec![at(-dx, dy - y), at(dx, dy - y)],
        vec![at(-dx, y - dy), at(dx, y - dy)],
        vec![at(dx - x, -dy), at(dx - x, dy)],
        vec![at(x - dx, -dy), at(x - dx, dy)],
    ]
}

fn octagon(x: f64, y: f64) -> Outline {
    let cut = x.min(y) * 0.55;
    let corners = [
        (cut - x, -y),
        (x - cut, -y),
        (x, cut - y),
        (x, y - cut),
        (x - cut, y),
        (cut - x, y),
        (-x, y - cut),
        (-x, cut - y),
    ];
    Outline::Polygon(corners.iter().map(|(x, y)| at(*x, *y)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_meet_every_shape_on_its_border() {
        for name in [
            "box",
            "Mdiamond",
            "Msquare",
            "hexagon",
            "diamond",
            "component",
            "tripleoctagon",
            "parallelogram",
            "house",
            "folder",
            "circle",
            "doublecircle",
            "ellipse",
            "plaintext",
            "unheard",
        ] {
            let shape = Shape::around(name, 60.0, 15.0);
            for step in 0..360 {
                let angle = f64::from(step).to_radians();
                let far = at(angle.cos() * 500.0, angle.sin() * 500.0);
                let border = shape.border(far);
                assert!(border.x.abs() <= shape.width / 2.0 + 0.1, "{name} {step}");
                assert!(border.y.abs() <= shape.height / 2.0 + 0.1, "{name} {step}");
                assert!(border.length() > 11.0, "{name} {step} {border:?}");
            }
        }
    }
}

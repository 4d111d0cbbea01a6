//! The columns of a layout: the order of boxes from the top down, and each box's position.

use super::{Edge, Layout, Node};

const MARGIN: f64 = 20.0;
const COLUMN_GAP: f64 = 56.0;
const ROW_GAP: f64 = 18.0;
/// Height of the way that a line takes through a column.
const WAY: f64 = 8.0;
const ORDER_SWEEPS: usize = 24;
const MOVE_SWEEPS: usize = 40;
/// Graphs with more lines are not searched for the order with the fewest crossings.
const COUNTED: usize = 3000;

/// What stands in a column: a box, or the way of a line through it.
struct Cell {
    height: f64,
    /// Cells in the column before, with how far below either's top the line between them ends:
    /// there, here.
    left: Vec<(usize, f64, f64)>,
    /// The same in the column after.
    right: Vec<(usize, f64, f64)>,
    y: f64,
}

pub(super) struct Grid {
    /// Cells: the nodes first, then the ways of edges.
    cells: Vec<Cell>,
    /// The cells of each column, from the top down.
    columns: Vec<Vec<usize>>,
    /// The cells of each edge's way, from left to right.
    ways: Vec<Vec<usize>>,
}

impl Grid {
    pub(super) fn new(nodes: &[Node], edges: &[Edge], backward: &[bool], column: &[usize]) -> Grid {
        let count = column.iter().max().map_or(0, |last| last + 1);
        let cell = |height| Cell {
            height,
            left: Vec::new(),
            right: Vec::new(),
            y: 0.0,
        };
        let mut grid = Grid {
            cells: nodes.iter().map(|node| cell(node.height)).collect(),
            columns: vec![Vec::new(); count],
            ways: Vec::new(),
        };
        for (node, column) in column.iter().enumerate() {
            grid.columns[*column].push(node);
        }
        for (edge, backward) in edges.iter().zip(backward) {
            let (left, right) = match backward {
                true => (edge.to, edge.from),
                false => (edge.from, edge.to),
            };
            let mut way = Vec::new();
            let mut last = left;
            for between in column[left.0] + 1..column[right.0] {
                let id = grid.cells.len();
                grid.cells.push(cell(WAY));
                grid.columns[between].push(id);
                grid.join(last, (id, WAY / 2.0));
                last = (id, WAY / 2.0);
                way.push(id);
            }
            if left.0 != right.0 {
                grid.join(last, right);
            }
            grid.ways.push(way);
        }
        grid
    }

    fn join(&mut self, left: (usize, f64), right: (usize, f64)) {
        self.cells[left.0].right.push((right.0, right.1, left.1));
        self.cells[right.0].left.push((left.0, left.1, right.1));
    }

    /// Orders each column by the mean place of what its cells are joined to, sweeping to and fro,
    /// and keeps the best order found.
    pub(super) fn order(&mut self) {
        let mut best = (self.crossings(), self.columns.clone());
        for sweep in 0..ORDER_SWEEPS {
            let count = self.columns.len();
            let forward = sweep % 2 == 0;
            for step in 1..count {
                let column = if forward { step } else { count - 1 - step };
                let place = self.paths();
                let mean = |cell: &Cell, own: f64| {
                    let joined = if forward { &cell.left } else { &cell.right };
                    let sum: f64 = joined
                        .iter()
                        .map(|(other, at, _)| place[*other] + at / 1000.0)
                        .sum();
                    match joined.len() {
                        0 => own,
                        count => sum / count as f64,
                    }
                };
                let mut keyed: Vec<(f64, usize)> = self.columns[column]
                    .iter()
                    .map(|id| (mean(&self.cells[*id], place[*id]), *id))
                    .collect();
                keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
                self.columns[column] = keyed.into_iter().map(|(_, id)| id).collect();
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.columns.clone());
            }
        }
        if best.0 < usize::MAX {
            self.columns = best.1;
        }
    }

    /// Each cell's place in its column.
    fn paths(&self) -> Vec<f64> {
        let mut place = vec![0.0; self.cells.len()];
        for column in &self.columns {
            for (i, id) in column.iter().enumerate() {
                place[*id] = i as f64;
            }
        }
        place
    }

    /// How many lines cross; the greatest number if there are too many lines to count.
    fn crossings(&self) -> usize {
        let place = self.paths();
        let mut total = 0;
        for column in &self.columns {
            let lines: Vec<(f64, f64)> = column
                .iter()
                .flat_map(|id| {
                    let place = &place;
                    self.cells[*id]
                        .right
                        .iter()
                        .map(move |(other, there, here)| {
                            (place[*id] + here / 1000.0, place[*other] + there / 1000.0)
                        })
                })
                .collect();
            if lines.len() > COUNTED {
                return usize::MAX;
            }
            for (i, a) in lines.iter().enumerate() {
                let crossed = |b: &&(f64, f64)| (a.0 - b.0) * (a.1 - b.1) < 0.0;
                total += lines[i + 1..].iter().filter(crossed).count();
            }
        }
        total
    }

    /// Puts the cells of each column below each other.
    pub(super) fn stack(&mut self) {
        for column in &self.columns {
            let mut y = 0.0;
            for id in column {
                self.cells[*id].y = y;
                y += self.cells[*id].height + ROW_GAP;
            }
        }
    }

    /// Moves cells so that lines get straight, sweeping to and fro.
    pub(super) fn align(&mut self) {
        let count = self.columns.len();
        for sweep in 0..MOVE_SWEEPS {
            for step in 0..count {
                let column = if sweep % 2 == 0 {
                    step
                } else {
                    count - 1 - step
                };
                let wanted: Vec<f64> = self.columns[column]
                    .iter()
                    .map(|id| self.wanted(&self.cells[*id]))
                    .collect();
                let heights: Vec<f64> = self.columns[column]
                    .iter()
                    .map(|id| self.cells[*id].height + ROW_GAP)
                    .collect();
                let fitted = fit(&wanted, &heights);
                for (id, y) in self.columns[column].iter().zip(fitted) {
                    self.cells[*id].y = y;
                }
            }
        }
    }

    /// Where a cell's top would have to be for its lines to be straight in the mean.
    fn wanted(&self, cell: &Cell) -> f64 {
        let joined = cell.left.iter().chain(&cell.right);
        let (mut sum, mut count) = (0.0, 0.0);
        for (other, there, here) in joined {
            sum += self.cells[*other].y + there - here;
            count += 1.0;
        }
        if count == 0.0 { cell.y } else { sum / count }
    }

    pub(super) fn finish(
        self,
        nodes: &[Node],
        edges: &[Edge],
        backward: &[bool],
        column: &[usize],
    ) -> Layout {
        let top = self
            .cells
            .iter()
            .map(|cell| cell.y)
            .fold(f64::INFINITY, f64::min);
        let y = |id: usize| self.cells[id].y - top + MARGIN;
        let (mut lefts, mut widths) = (Vec::new(), Vec::new());
        let mut x = MARGIN;
        for cells in &self.columns {
            let real = cells.iter().filter(|id| **id < nodes.len());
            let width = real.map(|id| nodes[*id].width).fold(0.0, f64::max);
            lefts.push(x);
            widths.push(width);
            x += width + COLUMN_GAP;
        }
        let corners: Vec<(f64, f64)> = (0..nodes.len())
            .map(|i| {
                let spare = widths[column[i]] - nodes[i].width;
                (lefts[column[i]] + spare / 2.0, y(i))
            })
            .collect();
        let mut bottom = self
            .cells
            .iter()
            .enumerate()
            .map(|(i, cell)| y(i) + cell.height)
            .fold(0.0, f64::max);
        let mut lines = Vec::new();
        for (i, edge) in edges.iter().enumerate() {
            let (from, to) = (edge.from.0, edge.to.0);
            let start = (
                corners[from].0 + nodes[from].width,
                corners[from].1 + edge.from.1,
            );
            let end = (corners[to].0, corners[to].1 + edge.to.1);
            let mut line = vec![start];
            if from == to {
                let below = corners[from].1 + nodes[from].height + ROW_GAP / 2.0;
                line.extend([(start.0, below), (end.0, below)]);
                bottom = bottom.max(below);
            }
            let mut way: Vec<(f64, f64)> = Vec::new();
            for (step, id) in self.ways[i].iter().enumerate() {
                let at = column[if backward[i] { to } else { from }] + 1 + step;
                let y = y(*id) + WAY / 2.0;
                way.extend([(lefts[at], y), (lefts[at] + widths[at], y)]);
            }
            if backward[i] {
                way.reverse();
            }
            line.extend(way);
            line.push(end);
            lines.push(line);
        }
        let width = if self.columns.is_empty() {
            2.0 * MARGIN
        } else {
            x - COLUMN_GAP + MARGIN
        };
        Layout {
            corners,
            lines,
            size: (width, bottom + MARGIN),
        }
    }
}

/// The paths nearest to `wanted`, in squares, of things of these heights below each other: an
/// isotonic regression, by pooling neighbours that are in each other's way.
fn fit(wanted: &[f64], heights: &[f64]) -> Vec<f64> {
    // Blocks of things that touch: the mean of where the first wants to be, and their number.
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    let mut above = 0.0;
    for (wanted, height) in wanted.iter().zip(heights) {
        let mut block = (wanted - above, 1);
        above += height;
        while let Some(last) = blocks.last().copied().filter(|last| last.0 > block.0) {
            blocks.pop();
            let count = last.1 + block.1;
            let sum = last.0 * last.1 as f64 + block.0 * block.1 as f64;
            block = (sum / count as f64, count);
        }
        blocks.push(block);
    }
    let mut fitted = Vec::with_capacity(wanted.len());
    let mut above = 0.0;
    for (place, count) in blocks {
        for _ in 0..count {
            fitted.push(place + above);
            above += heights[fitted.len() - 1];
        }
    }
    fitted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_in_each_other_s_way_share_the_blame() {
        assert_eq!(fit(&[10.0, 10.0], &[20.0, 20.0]), [0.0, 20.0]);
        assert_eq!(fit(&[0.0, 100.0], &[20.0, 20.0]), [0.0, 100.0]);
    }
}

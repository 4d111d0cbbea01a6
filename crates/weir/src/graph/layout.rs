//! A layered layout from left to right, after Sugiyama, Tagawa and Toda, “Methods for visual
//! understanding of hierarchical system structures” (1981): cycles are broken, nodes put in
//! columns by their longest path, ordered within a column so that few edges cross, and moved up
//! and down so that edges are short.

mod grid;

use std::fmt::Write as _;

use grid::Grid;

/// A box to be placed. Lengths are in pixels.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// Left to right.
    pub width: f64,
    /// Top to bottom.
    pub height: f64,
}

/// A line from the right side of one box to the left side of another.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The box it leaves, and how far below the box's top.
    pub from: (usize, f64),
    /// The box it enters, and how far below the box's top.
    pub to: (usize, f64),
}

/// Where everything is.
#[derive(Debug)]
pub struct Layout {
    /// The left top corner of each box.
    pub corners: Vec<(f64, f64)>,
    /// The points that each line goes through.
    pub lines: Vec<Vec<(f64, f64)>>,
    /// The drawing's width and height.
    pub size: (f64, f64),
}

/// Paths `nodes` and `edges`.
pub fn layout(nodes: &[Node], edges: &[Edge]) -> Layout {
    let backward = backward(nodes.len(), edges);
    let columns = columns(nodes.len(), edges, &backward);
    let mut grid = Grid::new(nodes, edges, &backward, &columns);
    grid.order();
    grid.stack();
    grid.align();
    grid.finish(nodes, edges, &backward, &columns)
}

/// Which edges close a cycle, when the graph is walked from its sources on.
fn backward(count: usize, edges: &[Edge]) -> Vec<bool> {
    let mut leaving = vec![Vec::new(); count];
    let mut entered = vec![false; count];
    for (i, edge) in edges.iter().enumerate() {
        leaving[edge.from.0].push(i);
        entered[edge.to.0] = true;
    }
    let mut backward = vec![false; edges.len()];
    // 0: not seen, 1: on the way to here, 2: done.
    let mut state = vec![0u8; count];
    let sources = (0..count).filter(|i| !entered[*i]);
    for start in sources.chain(0..count).collect::<Vec<_>>() {
        if state[start] != 0 {
            continue;
        }
        state[start] = 1;
        let mut path = vec![(start, 0)];
        while let Some((node, next)) = path.last_mut() {
            let Some(&edge) = leaving[*node].get(*next) else {
                state[*node] = 2;
                path.pop();
                continue;
            };
            *next += 1;
            let to = edges[edge].to.0;
            match state[to] {
                0 => {
                    state[to] = 1;
                    path.push((to, 0));
                }
                1 => backward[edge] = true,
                _ => {}
            }
        }
    }
    backward
}

/// The column of each node: behind all that lead to it, and no further left than need be.
fn columns(count: usize, edges: &[Edge], backward: &[bool]) -> Vec<usize> {
    let forward: Vec<(usize, usize)> = edges
        .iter()
        .zip(backward)
        .filter(|(edge, backward)| !**backward && edge.from.0 != edge.to.0)
        .map(|(edge, _)| (edge.from.0, edge.to.0))
        .collect();
    let mut leaving = vec![Vec::new(); count];
    let mut waiting = vec![0; count];
    for &(from, to) in &forward {
        leaving[from].push(to);
        waiting[to] += 1;
    }
    let sources: Vec<usize> = (0..count).filter(|i| waiting[*i] == 0).collect();
    let mut column = vec![0; count];
    let mut ready = sources.clone();
    while let Some(node) = ready.pop() {
        for &to in &leaving[node] {
            column[to] = column[to].max(column[node] + 1);
            waiting[to] -= 1;
            if waiting[to] == 0 {
                ready.push(to);
            }
        }
    }
    for source in sources {
        if let Some(nearest) = leaving[source].iter().map(|to| column[*to]).min() {
            column[source] = nearest - 1;
        }
    }
    column
}

/// The `d` of a smooth SVG path through points: level at each of them.
pub fn path(points: &[(f64, f64)]) -> String {
    let mut text = String::new();
    for (i, point) in points.iter().enumerate() {
        let _ = match i.checked_sub(1).map(|last| points[last]) {
            None => write!(text, "M{:.1} {:.1}", point.0, point.1),
            Some(last) if i > 1 && i < points.len() - 1 && last.1 == point.1 => {
                write!(text, "L{:.1} {:.1}", point.0, point.1)
            }
            Some(last) => {
                // Lines leave boxes to the right and enter them from the left, also when they
                // lead back.
                let bend = ((point.0 - last.0).abs() / 2.0).max(24.0);
                let back = if point.0 < last.0 { -1.0 } else { 1.0 };
                let leave = if i == 1 { bend } else { bend * back };
                let enter = if i == points.len() - 1 {
                    bend
                } else {
                    bend * back
                };
                write!(
                    text,
                    "C{:.1} {:.1} {:.1} {:.1} {:.1} {:.1}",
                    last.0 + leave,
                    last.1,
                    point.0 - enter,
                    point.1,
                    point.0,
                    point.1
                )
            }
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn boxes(count: usize) -> Vec<Node> {
        let node = Node {
            width: 80.0,
            height: 30.0,
        };
        vec![node; count]
    }

    fn edge(from: usize, to: usize) -> Edge {
        Edge {
            from: (from, 15.0),
            to: (to, 15.0),
        }
    }

    #[test]
    fn a_chain_is_a_straight_line() {
        let layout = layout(&boxes(4), &[edge(0, 1), edge(1, 2), edge(2, 3)]);
        let first = layout.corners[0];
        for (i, corner) in layout.corners.iter().enumerate() {
            assert!((corner.1 - first.1).abs() < 1e-6);
            assert!(i == 0 || corner.0 > layout.corners[i - 1].0);
        }
    }

    proptest! {
        #[test]
        fn boxes_never_overlap(
            count in 1usize..30,
            pairs in prop::collection::vec((0usize..30, 0usize..30), 0..60),
        ) {
            let edges: Vec<Edge> = pairs
                .iter()
                .map(|(from, to)| edge(from % count, to % count))
                .collect();
            let layout = layout(&boxes(count), &edges);
            for (i, a) in layout.corners.iter().enumerate() {
                prop_assert!(a.0 >= 0.0 && a.0 + 80.0 <= layout.size.0);
                prop_assert!(a.1 >= 0.0 && a.1 + 30.0 <= layout.size.1);
                for b in &layout.corners[i + 1..] {
                    let apart = (a.0 - b.0).abs() >= 80.0 || (a.1 - b.1).abs() >= 30.0 - 1e-6;
                    prop_assert!(apart, "{a:?} {b:?}");
                }
            }
            prop_assert_eq!(layout.lines.len(), edges.len());
        }
    }
}

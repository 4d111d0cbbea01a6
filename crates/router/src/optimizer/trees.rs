//! Decision trees: elements in a row that only classify become one [tree](crate::walk::tree).

use super::EffectTable;
use crate::classify::{Classify, TreeBranch, TreeNode};
use crate::prelude::*;
use crate::walk::dispatch::FEW;
use crate::walk::edges::Edges;
use crate::walk::fused_path::FusedPaths;
use crate::walk::numbers::{EdgeId, Optimization};
use crate::walk::tree::{Leaf, Tree};

/// Most elements of a tree.
const NODES_MAX: usize = 16;

/// Finds the trees, and marks the edges that lead to their first elements. Trees are taken from
/// `former` where they still apply.
pub fn build(
    edges: &mut Edges,
    effects: EffectTable<'_>,
    paths: &FusedPaths,
    former: &mut Vec<Tree>,
) -> Vec<Tree> {
    let builder = Builder {
        edges,
        effects,
        paths,
    };
    let trees = builder.all(former);
    let mut found = Vec::with_capacity(trees.len());
    for (index, (root, tree)) in trees.into_iter().enumerate() {
        for edge in edges.outputs_mut() {
            if edge.target.as_port() == Some((root, 0)) {
                edge.optimization = Optimization::tree(index);
            }
        }
        found.push(tree);
    }
    found
}

/// An element that may become a node.
struct Candidate<'d> {
    id: ElementId,
    rules: &'d Arc<dyn Classify>,
    /// The edges that lead here from the first.
    passed: Vec<EdgeId>,
    /// For each output the candidate there, if there is one.
    behind: Vec<Option<usize>>,
}

struct Builder<'b> {
    edges: &'b Edges,
    effects: EffectTable<'b>,
    paths: &'b FusedPaths,
}

impl<'b> Builder<'b> {
    /// All trees, with their first elements.
    fn all(&self, former: &mut Vec<Tree>) -> Vec<(ElementId, Tree)> {
        // Where packets come from an element that does not only classify; then behind trees.
        let mut starts = Vec::new();
        for id in (0..self.effects.0.len()).map(ElementId::new) {
            if self.effects.rules(id).is_none() {
                self.add_classifiers(self.edges.outputs_of(id).edges(), &mut starts);
            }
        }
        let (mut trees, mut next) = (Vec::new(), 0);
        while let Some(&id) = starts.get(next) {
            next += 1;
            match self.largest(id, former) {
                None => self.add_classifiers(self.edges.outputs_of(id).edges(), &mut starts),
                Some(tree) => {
                    self.add_classifiers(tree.leaves.iter().map(|leaf| leaf.exit), &mut starts);
                    trees.push((id, tree));
                }
            }
        }
        trees
    }

    /// Adds the elements that edges lead to, if they only classify and are not among `elements`.
    fn add_classifiers(&self, edges: impl Iterator<Item = EdgeId>, elements: &mut Vec<ElementId>) {
        for edge in edges {
            let target = self.edges.get(edge).and_then(|edge| edge.target.as_port());
            if let Some((id, 0)) = target
                && !elements.contains(&id)
                && self.effects.rules(id).is_some()
            {
                elements.push(id);
            }
        }
    }

    /// The largest tree that starts with an element, if there is one.
    fn largest(&self, id: ElementId, former: &mut Vec<Tree>) -> Option<Tree> {
        let candidates = self.candidates(id)?;
        let mut count = candidates.len();
        while count > 1 {
            if let Some(tree) = self.tree(&candidates[..count], former) {
                return Some(tree);
            }
            count /= 2;
        }
        None
    }

    /// An element and those behind it that only classify, nearest first.
    fn candidates(&self, id: ElementId) -> Option<Vec<Candidate<'b>>> {
        let mut candidates = Vec::from([self.candidate(id, Vec::new())?]);
        let mut at = 0;
        while at < candidates.len() {
            for port in 0..candidates[at].behind.len() {
                let Candidate { id, passed, .. } = &candidates[at];
                let edge = self.edges.output(*id, port)?;
                let behind = match self.edges[edge].target.as_port() {
                    Some((id, 0)) if candidates.len() < NODES_MAX => {
                        let mut passed = passed.clone();
                        passed.push(edge);
                        self.candidate(id, passed)
                    }
                    _ => None,
                };
                if let Some(behind) = behind {
                    candidates[at].behind[port] = Some(candidates.len());
                    candidates.push(behind);
                }
            }
            at += 1;
        }
        Some(candidates)
    }

    fn candidate(&self, id: ElementId, passed: Vec<EdgeId>) -> Option<Candidate<'b>> {
        let effects = self.effects.0.get(id.index())?.as_ref()?;
        Some(Candidate {
            id,
            rules: effects.rules.as_ref()?,
            passed,
            behind: alloc::vec![None; self.edges.outputs_of(id).count()],
        })
    }

    /// The tree of all these candidates.
    fn tree(&self, candidates: &[Candidate<'_>], former: &mut Vec<Tree>) -> Option<Tree> {
        let (nodes, mut leaves) = self.nodes(candidates);
        let same = former.iter().position(|former| former.nodes == nodes);
        let classifier = match same {
            Some(same) => former.swap_remove(same).classifier,
            None => candidates.first()?.rules.tree(&nodes)?,
        };
        let same_effect = self.merge_leaves(&mut leaves);
        let few = [false, true].map(|fused| self.has_few_destinations(&leaves, fused));
        Some(Tree::new(
            nodes,
            classifier,
            leaves,
            same_effect,
            few == [true; 2],
        ))
    }

    /// The nodes and leaves of a tree.
    fn nodes(&self, candidates: &[Candidate<'_>]) -> (Vec<TreeNode>, Vec<Leaf>) {
        let (mut nodes, mut leaves) = (Vec::new(), Vec::new());
        for candidate in candidates {
            let mut leaf = |exit: EdgeId| {
                leaves.push(Leaf {
                    output: candidate.passed.first().copied().unwrap_or(exit),
                    exit,
                    same_effect: leaves.len() as u32,
                    passed: candidate.passed.as_slice().into(),
                    packets: 0,
                });
                leaves.len() as u32 - 1
            };
            let branch = |(port, behind): (usize, &Option<usize>)| {
                let output = || {
                    self.edges
                        .output(candidate.id, port)
                        .unwrap_or(EdgeId::NONE)
                };
                match behind.filter(|behind| *behind < candidates.len()) {
                    Some(behind) => TreeBranch::Node(behind),
                    None => TreeBranch::Leaf(leaf(output())),
                }
            };
            let outputs = candidate.behind.iter().enumerate().map(branch).collect();
            nodes.push(TreeNode {
                rules: candidate.rules.clone(),
                outputs,
                dropped: leaf(EdgeId::NONE),
            });
        }
        (nodes, leaves)
    }

    /// Records for each leaf the first whose fused path has the same effect; returns whether there
    /// is any.
    fn merge_leaves(&self, leaves: &mut [Leaf]) -> bool {
        let edge = |leaf: &Leaf| self.edges.get(leaf.exit);
        let mut merged = false;
        for at in 1..leaves.len() {
            let Some(own) = edge(&leaves[at]) else {
                continue;
            };
            let same =
                |leaf: &Leaf| edge(leaf).is_some_and(|edge| self.paths.same_effect(own, edge));
            if let Some(first) = leaves[..at].iter().position(same) {
                leaves[at].same_effect = first as u32;
                merged = true;
            }
        }
        merged
    }

    /// Whether packets have at most [`FEW`] destinations behind the leaves, or with `fused` behind
    /// the fused paths that start there.
    fn has_few_destinations(&self, leaves: &[Leaf], fused: bool) -> bool {
        let mut keys = Vec::new();
        for leaf in leaves {
            let mut edge = self.edges.get(leaf.exit);
            let path = edge.and_then(|edge| self.paths.at(edge));
            if let Some(path) = path.filter(|_| fused) {
                edge = self.edges.get(path.exit);
            }
            let key = edge.map(|edge| edge.target.key());
            if keys.len() <= FEW && !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys.len() <= FEW
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicUsize, Ordering};

    use super::super::tests::{edge, graph, opaque};
    use super::*;
    use crate::classify::DecisionTree;
    use crate::effects::Effects;

    /// Rules that make a tree of at most so many nodes, and how often they did.
    struct Rules {
        most: usize,
        made: AtomicUsize,
    }

    struct Nothing;

    impl DecisionTree for Nothing {
        fn classify(&mut self, _batch: &Batch, _leaves: &mut Vec<(u32, u64)>) -> bool {
            false
        }
    }

    impl Classify for Rules {
        fn tree(&self, nodes: &[TreeNode]) -> Option<Box<dyn DecisionTree>> {
            if nodes.len() > self.most {
                return None;
            }
            self.made.fetch_add(1, Ordering::Relaxed);
            Some(Box::new(Nothing))
        }
    }

    fn rules(most: usize) -> Arc<Rules> {
        let made = AtomicUsize::new(0);
        Arc::new(Rules { most, made })
    }

    fn classifies(rules: &Arc<Rules>) -> Option<Effects> {
        Some(Effects {
            rules: Some(rules.clone()),
            ..Effects::default()
        })
    }

    /// source 0 -> classifier 1 -> classifier 2 or sink 3; 2 -> sink 3 or sink 4
    fn two_in_a_row() -> Edges {
        graph(&[&[1], &[2, 3], &[3, 4], &[], &[]])
    }

    fn build_of(edges: &mut Edges, rules: &Arc<Rules>, former: &mut Vec<Tree>) -> Vec<Tree> {
        let effects = [
            opaque(),
            classifies(rules),
            classifies(rules),
            opaque(),
            opaque(),
        ];
        build(edges, EffectTable(&effects), &FusedPaths::default(), former)
    }

    #[test]
    fn classifiers_in_a_row_become_a_tree_with_a_leaf_for_each_way_out() {
        let mut edges = two_in_a_row();
        let trees = build_of(&mut edges, &rules(16), &mut Vec::new());
        let [tree] = &trees[..] else {
            panic!("{} trees", trees.len());
        };
        let outputs: Vec<_> = tree.nodes.iter().map(|node| &node.outputs[..]).collect();
        let first = [TreeBranch::Node(1), TreeBranch::Leaf(0)];
        let second = [TreeBranch::Leaf(2), TreeBranch::Leaf(3)];
        assert_eq!(outputs, [first, second]);
        assert_eq!([tree.nodes[0].dropped, tree.nodes[1].dropped], [1, 4]);
        let exits: Vec<_> = tree.leaves.iter().map(|leaf| leaf.exit).collect();
        let [to_second, past] = [0, 1].map(|port| edge(&edges, 1, port));
        let [left, right] = [0, 1].map(|port| edge(&edges, 2, port));
        assert_eq!(exits, [past, EdgeId::NONE, left, right, EdgeId::NONE]);
        // Packets of the second leave the first by the edge between the two, and count there.
        let inner = &tree.leaves[3];
        assert_eq!(
            (inner.output, &inner.passed[..]),
            (to_second, &[to_second][..])
        );
        assert!(tree.few && !tree.same_effect);
        let start = edge(&edges, 0, 0);
        assert_eq!(edges[start].optimization.as_tree(), Some(0));
        assert_eq!(edges[to_second].optimization, Optimization::NONE);
    }

    #[test]
    fn a_tree_is_not_made_again_while_its_elements_declare_the_same() {
        let (mut edges, rules) = (two_in_a_row(), rules(16));
        let mut former = build_of(&mut edges, &rules, &mut Vec::new());
        let trees = build_of(&mut edges, &rules, &mut former);
        assert_eq!((trees.len(), former.len()), (1, 0));
        assert_eq!(rules.made.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_single_classifier_is_no_tree_and_those_behind_it_still_may_be() {
        let mut edges = two_in_a_row();
        assert!(build_of(&mut edges, &rules(1), &mut Vec::new()).is_empty());
        // Of three in a row the rules take two: half of three is one, and the other two follow.
        let mut edges = graph(&[&[1], &[2], &[3], &[4], &[]]);
        let rules = rules(2);
        let all = || classifies(&rules);
        let effects = [opaque(), all(), all(), all(), opaque()];
        let paths = FusedPaths::default();
        let trees = build(&mut edges, EffectTable(&effects), &paths, &mut Vec::new());
        assert_eq!(trees.len(), 1);
        assert_eq!(edges[edge(&edges, 0, 0)].optimization, Optimization::NONE);
        assert_eq!(edges[edge(&edges, 1, 0)].optimization.as_tree(), Some(0));
    }
}

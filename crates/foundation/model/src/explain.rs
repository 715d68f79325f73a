//! What an execution says of itself: EXPLAIN's JSON.

use serde_json::Value;

/// The part of an EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) that counts here.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Explained {
    /// The nodes of the plan, from the top.
    pub nodes: Vec<String>,
    /// Blocks found in shared buffers, over all nodes.
    pub hit_blocks: u64,
    /// Blocks read into them.
    pub read_blocks: u64,
    /// Processes that took part beside the leader.
    pub workers: u64,
    /// Execution in milliseconds.
    pub execution_ms: f64,
}

impl Explained {
    /// Reads the text; none where it is not such an EXPLAIN.
    pub fn parse(text: &str) -> Option<Self> {
        let json: Value = serde_json::from_str(text).ok()?;
        let top = json.get(0)?;
        let plan = top.get("Plan")?;
        let number = |node: &Value, name: &str| node.get(name).and_then(Value::as_u64);
        let mut explained = Self {
            // A node's counts hold those of its children and workers.
            hit_blocks: number(plan, "Shared Hit Blocks")?,
            read_blocks: number(plan, "Shared Read Blocks")?,
            execution_ms: top.get("Execution Time").and_then(Value::as_f64)?,
            ..Self::default()
        };
        explained.visit(plan, 0);
        Some(explained)
    }

    fn visit(&mut self, node: &Value, depth: usize) {
        if depth > 100 {
            return;
        }
        if let Some(kind) = node.get("Node Type").and_then(Value::as_str) {
            self.nodes.push(kind.to_owned());
        }
        let workers = node.get("Workers Launched").and_then(Value::as_u64);
        self.workers += workers.unwrap_or(0);
        for child in node
            .get("Plans")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            self.visit(child, depth + 1);
        }
    }

    /// How the table was read: the deepest node that reads it.
    pub fn scan(&self) -> &str {
        self.nodes
            .iter()
            .rev()
            .find(|node| node.ends_with("Scan") && *node != "Bitmap Index Scan")
            .map_or("no scan", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parallel_bitmap_scan() {
        let text = r#"[{"Plan": {"Node Type": "Aggregate", "Shared Hit Blocks": 5, "Shared Read Blocks": 13107,
            "Plans": [{"Node Type": "Gather", "Workers Launched": 2, "Plans": [
              {"Node Type": "Bitmap Heap Scan", "Plans": [{"Node Type": "Bitmap Index Scan"}]}]}]},
            "Planning": {"Shared Read Blocks": 9}, "Execution Time": 12.5}]"#;
        let explained = Explained::parse(text).unwrap();
        assert_eq!((explained.hit_blocks, explained.read_blocks), (5, 13107));
        assert_eq!(explained.workers, 2);
        assert_eq!(explained.scan(), "Bitmap Heap Scan");
        assert_eq!(explained.execution_ms, 12.5);
        for text in ["", "[]", "{}", "[{\"Plan\": {}}]"] {
            assert_eq!(Explained::parse(text), None);
        }
    }
}

use crate::prelude::*;

/// Numbers kept if no SIZE is given.
const SIZE: usize = 1024;
/// Most numbers kept.
const SIZE_MAX: usize = 1 << 20;

/// Keeps the order in which tasks ran, for all SchedOrderTests of a router.
pub(super) trait RunOrder {
    /// The SIZE that the element asks for.
    fn size(&self) -> usize;

    /// Adds the number of a task that runs; false if there is no room.
    fn add(&mut self, number: i32) -> bool;

    /// The numbers so far.
    fn numbers(&self) -> &[i32];
}

impl Interface for dyn RunOrder {
    const NAME: &'static str = "SchedOrderTest";
}

/// Shows the order in which tasks run.
///
/// Its task schedules itself again and again. All SchedOrderTests of a router keep one list of the
/// numbers of the elements that ran, up to the largest SIZE. ScheduleInfo sets the tickets.
///
/// # Example
/// ```click
/// s1 :: SchedOrderTest(1, SIZE 12, STOP true);
/// s2 :: SchedOrderTest(2);
/// ScheduleInfo(s1 1, s2 2);
/// DriverManager(pause, print s1.order);
/// ```
///
/// # See also
/// ScheduleInfo
#[derive(Element)]
#[element(ports = "0/0", handlers, task, provides(RunOrder))]
pub struct SchedOrderTest {
    /// The number that it adds to the list.
    #[arg(mandatory)]
    id: i32,
    /// Most numbers of the list, up to 1048576; 0 stands for 1024.
    #[arg]
    size: u32,
    /// How often its task runs; 0: without end.
    #[arg]
    limit: u32,
    /// Whether it stops the driver when its task runs and the list is full.
    #[arg]
    stop: bool,
    count: u32,
    numbers: Vec<i32>,
    /// The element with the list, if it is another.
    keeper: Option<Link<dyn RunOrder>>,
}

#[handlers]
impl SchedOrderTest {
    /// The numbers in the order in which tasks ran.
    #[read]
    fn order(&self, cx: &mut Cx<'_>) -> String {
        let numbers = match self.keeper {
            Some(keeper) => cx.view(keeper).map_or(&[][..], |keeper| keeper.numbers()),
            None => &self.numbers,
        };
        let words: Vec<String> = numbers.iter().map(i32::to_string).collect();
        words.join(" ") + "\n"
    }
}

impl RunOrder for SchedOrderTest {
    fn size(&self) -> usize {
        self.size as usize
    }

    fn add(&mut self, number: i32) -> bool {
        let has_room = self.numbers.len() < self.numbers.capacity();
        if has_room {
            self.numbers.push(number);
        }
        has_room
    }

    fn numbers(&self) -> &[i32] {
        &self.numbers
    }
}

impl Element for SchedOrderTest {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.size as usize > SIZE_MAX {
            return Err(args.fail(format_args!("SIZE {}: at most {SIZE_MAX}", self.size)));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let elements = (0..cx.graph().elements.len()).map(ElementId::new);
        let tests: Vec<_> = elements
            .filter_map(|id| cx.link::<dyn RunOrder>(id))
            .collect();
        self.keeper = tests.first().copied().filter(|first| first.id() != cx.id());
        if self.keeper.is_none() {
            let sizes = tests.iter().filter_map(|test| cx.view(*test));
            let others = sizes.map(|test| test.size()).max().unwrap_or(0);
            let size = match others.max(self.size()) {
                0 => SIZE,
                size => size,
            };
            if self.numbers.try_reserve_exact(size).is_err() {
                return Err(cx.error(format_args!("SIZE {size}: out of memory")));
            }
        }
        let task = cx.task();
        cx.schedule(task);
        Ok(())
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        let id = self.id;
        let added = match self.keeper {
            Some(keeper) => cx
                .reach(keeper, |keeper, _| keeper.add(id))
                .unwrap_or(false),
            None => self.add(id),
        };
        if !added && self.stop {
            cx.stop();
        }
        self.count = self.count.saturating_add(1);
        if self.limit == 0 || self.count < self.limit {
            cx.schedule(task);
        }
        Ran::worked(true)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn tickets_say_how_often_tasks_run() {
        let mut rig = Rig::new(
            "a :: SchedOrderTest(1, SIZE 6, STOP true); b :: SchedOrderTest(2, SIZE 12);
             ScheduleInfo(a 1, b 2);",
        );
        assert_eq!(rig.run(), Status::Stopped);
        let order = rig.read("a.order");
        assert_eq!(rig.read("b.order"), order);
        let numbers: Vec<_> = order.split_whitespace().collect();
        assert_eq!(numbers.len(), 12);
        assert_eq!(numbers.iter().filter(|number| **number == "2").count(), 8);
    }

    #[test]
    fn a_limit_ends_a_task() {
        let mut rig = Rig::new("a :: SchedOrderTest(7, LIMIT 3);");
        assert_eq!(rig.run(), Status::Idle(None));
        assert_eq!(rig.read("a.order"), "7 7 7\n");
        Rig::refuses("SchedOrderTest(1, SIZE 1048577);", "at most 1048576");
    }
}

use crate::prelude::*;

/// Reads or writes the same handler of several elements.
///
/// # Example
/// ```click
/// a :: Counter; b :: Counter;
/// InfiniteSource(LIMIT 10) -> a -> Discard;
/// InfiniteSource(LIMIT 20, STOP true) -> b -> Discard;
/// all :: HandlerAggregate(ELEMENT a, ELEMENT b);
/// DriverManager(pause, print $(all.add count), write all.write reset);
/// ```
///
/// # See also
/// Script
#[derive(Element)]
#[element(ports = "0/0", handlers)]
pub struct HandlerAggregate {
    /// An element, any number of times.
    #[arg(all, name = "ELEMENT", kind = "element")]
    elements: Vec<ElementRef>,
}

impl HandlerAggregate {
    /// The sum of the values of the handler that `call` names: `HANDLER [PARAMETER]`.
    fn sum(&self, cx: &mut Cx<'_>, call: &str) -> Result<f64, String> {
        let (handler, parameter) = click::config::shift_space(call);
        let mut sum = 0.0;
        for element in &self.elements {
            let id = ElementId::new(element.index);
            let value = cx.read_handler(Some(id), handler, parameter);
            let value = value.map_err(|error| failed(element, handler, error))?;
            let number: f64 = value.trim().parse().map_err(|_| {
                let (name, value) = (&element.name, value.trim());
                format!("{name}.{handler}: expected a number, not ‘{value}’")
            })?;
            sum += number;
        }
        Ok(sum)
    }
}

/// Why the handler of an element could not be called.
fn failed(element: &ElementRef, handler: &str, error: HandlerError) -> String {
    let reason = match error {
        HandlerError::Failed(reason) => reason.to_string(),
        HandlerError::Unknown => "there is no such handler".to_string(),
    };
    format!("{}.{handler}: {reason}", element.name)
}

#[handlers]
impl HandlerAggregate {
    /// The sum of the elements' values of a handler: the parameter is `HANDLER [PARAMETER]`.
    #[read]
    fn add(&self, cx: &mut Cx<'_>, call: &str) -> Result<String, String> {
        Ok(unparse::real(self.sum(cx, call)?))
    }

    /// Their mean.
    #[read]
    fn avg(&self, cx: &mut Cx<'_>, call: &str) -> Result<String, String> {
        let elements = self.elements.len().max(1) as f64;
        Ok(unparse::real(self.sum(cx, call)? / elements))
    }

    /// Writes a handler of each element: the value is `HANDLER [VALUE]`.
    #[write(name = "write")]
    fn write_all(&mut self, cx: &mut Cx<'_>, call: &str) -> Result<(), String> {
        let (handler, value) = click::config::shift_space(call);
        for element in &self.elements {
            let id = ElementId::new(element.index);
            let written = cx.write_handler(Some(id), handler, value);
            written.map_err(|error| failed(element, handler, error))?;
        }
        Ok(())
    }
}

impl Element for HandlerAggregate {}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    fn rig() -> Rig {
        Rig::new(
            "i :: Inject -> a :: Counter -> Discard; j :: Inject -> b :: Counter -> Discard;
             h :: HandlerAggregate(ELEMENT a, ELEMENT b);",
        )
    }

    fn read(rig: &mut Rig, handler: &str, parameter: &str) -> Result<String, HandlerError> {
        let id = rig.router.find("h");
        rig.router.read(id, handler, parameter)
    }

    #[test]
    fn values_are_added_and_handlers_written() {
        let mut rig = rig();
        rig.push_all("i", &[vec![1], vec![2]]);
        rig.push("j", &[3]);
        assert_eq!(read(&mut rig, "add", "count"), Ok("3".into()));
        assert_eq!(read(&mut rig, "avg", "count"), Ok("1.5".into()));
        rig.write("h.write", "reset");
        assert_eq!(read(&mut rig, "add", "count"), Ok("0".into()));
    }

    #[test]
    fn mistakes_name_the_element_and_the_handler() {
        let mut rig = rig();
        let error = read(&mut rig, "add", "nosuch");
        assert_eq!(error, Err("a.nosuch: there is no such handler".into()));
        let error = read(&mut rig, "avg", "class");
        assert_eq!(
            error,
            Err("a.class: expected a number, not ‘Counter’".into())
        );
        assert!(rig.try_write("h.write", "nosuch 1").is_err());
        Rig::refuses(
            "HandlerAggregate(ELEMENT nobody);",
            "does not name an element",
        );
    }
}

//! `weir stub`.

use clap::Subcommand;
use clap::builder::RangedI64ValueParser;
use node::model::{Object, STUB_MTUS, Stub};

use super::link::{COLUMNS, Segment};
use super::output::{Output, made};
use super::{Result, client};

/// Makes stubs: switches without an interface (etherstubs)
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  weir stub create lan
  weir stub show
  weir stub delete lan")]
pub enum StubCommand {
    /// Makes a stub
    Create {
        /// The stub's name
        stub: String,
        /// Largest IP packet, in bytes
        #[arg(long, default_value_t = 1500, value_name = "BYTES", value_parser = mtu())]
        mtu: u16,
        /// Print the stub as JSON
        #[arg(long)]
        json: bool,
    },
    /// Removes an unused stub
    Delete {
        /// The stub's name
        stub: String,
    },
    /// Shows stubs
    Show {
        /// The stub; default: all
        stub: Option<String>,
        #[command(flatten)]
        output: Output,
    },
}

fn mtu() -> RangedI64ValueParser<u16> {
    let (least, most) = (*STUB_MTUS.start(), *STUB_MTUS.end());
    RangedI64ValueParser::new().range(i64::from(least)..=i64::from(most))
}

/// Runs `weir stub`.
pub fn run(command: &StubCommand) -> Result {
    let client = client();
    match command {
        StubCommand::Create { stub, mtu, json } => {
            let new = Stub {
                mtu: Some(*mtu),
                ..Stub::default()
            };
            made(*json, &client.create(&Object::new(stub, new))?)
        }
        StubCommand::Delete { stub } => client.delete::<Stub>(stub),
        StubCommand::Show { stub, output } => {
            let stubs = client.some::<Stub>(stub.as_deref())?;
            let stubs: Vec<_> = stubs.into_iter().map(Segment::Stub).collect();
            output.show(&stubs, COLUMNS)
        }
    }
}

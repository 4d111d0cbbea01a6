//! The image that guests run.
#![no_std]
#![no_main]

use guest::{Platform, RouterApplication, run};

guest::entry!(main);

fn main(platform: &'static Platform) -> ! {
    run(platform, &mut RouterApplication::start(platform))
}

//! `weir network`: networks over the hosts of a cluster.

use std::ops::RangeInclusive;

use clap::Subcommand;
use cluster::etcd::Store;
use cluster::networks::{self, Creation, MTU_MAX, MTU_MIN, NetworkRow};

use super::Result;
use super::cluster::{ClusterFile, view, with};
use super::output::{Column, Output};

/// Creates and lists networks over the hosts of a cluster
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  weir network create lan
  weir create --cluster --count 4 --name 'web-{}' web.click --link eth0=lan
  weir network ls
  weir network delete lan")]
pub enum NetworkCommand {
    /// Creates a network: on each host a link of its name, by tunnels to the hosts that have VNICs on it
    #[command(
        after_help = "Examples:\n  weir network create lan\n  weir network create lan --vni 42 --port 4789 --mtu 1400"
    )]
    Create {
        /// The network
        network: String,
        /// Its network identifier (RFC 7348), up to 16777215; default: the least one that is free
        #[arg(long, value_name = "N")]
        vni: Option<u32>,
        /// Its UDP port; default: the least one that is free, from 4789 on
        #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
        port: Option<u16>,
        /// Largest IP packet, in bytes: what the hosts' network takes less 50, with IPv6 less 70; default: 1450, with
        /// WireGuard 1350
        #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(mtus()))]
        mtu: Option<u16>,
        #[command(flatten)]
        cluster: ClusterFile,
    },
    /// Lists networks
    #[command(after_help = "Examples:\n  weir network ls\n  weir network ls -p -o network,hosts")]
    Ls {
        #[command(flatten)]
        cluster: ClusterFile,
        #[command(flatten)]
        output: Output,
    },
    /// Removes a network that has no VNICs
    #[command(after_help = "Example:\n  weir network delete lan")]
    Delete {
        /// The network
        network: String,
        #[command(flatten)]
        cluster: ClusterFile,
    },
}

const COLUMNS: &[Column<NetworkRow>] = &[
    Column::new("network", |it| it.network.clone()),
    Column::new("vni", |it| it.vni.to_string()),
    Column::new("port", |it| it.port.to_string()),
    Column::new("mtu", |it| it.mtu.to_string()),
    Column::new("vnics", |it| it.vnics.to_string()),
    Column::new("hosts", |it| it.hosts.join(",")),
    Column::new("faults", |it| it.faults.join("; ")),
];

/// What an MTU may be.
fn mtus() -> RangeInclusive<i64> {
    MTU_MIN.into()..=MTU_MAX.into()
}

/// Runs `weir network`.
pub fn run(command: &NetworkCommand) -> Result {
    match command {
        NetworkCommand::Create {
            network,
            vni,
            port,
            mtu,
            cluster,
        } => {
            let creation = Creation {
                vni: *vni,
                port: *port,
                mtu: *mtu,
                wire: None,
            };
            with(&cluster.context()?, async |store: Store| {
                networks::create(&store, network, &creation).await
            })
        }
        NetworkCommand::Ls { cluster, output } => {
            let view = view(&cluster.context()?)?;
            output.show(&networks::list(&view), COLUMNS)
        }
        NetworkCommand::Delete { network, cluster } => {
            with(&cluster.context()?, async |store: Store| {
                networks::delete(&store, network).await
            })
        }
    }
}

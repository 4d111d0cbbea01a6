// The parts of the API, by their names.

import type { components } from "./schema.js";

type Schemas = components["schemas"];
export type Action = Schemas["Action"];
export type Flow = Schemas["FlowObject"];
export type FlowStats = Schemas["FlowStats"];
export type SettledFlow = Schemas["SettledFlow"];
export type Guest = Schemas["GuestObject"];
export type GuestOutcome = Schemas["GuestOutcome"];
export type GuestSeries = Schemas["GuestSeries"];
export type GuestStatus = Schemas["GuestStatus"];
export type Kind = Schemas["Kind"];
export type Link = Schemas["LinkObject"];
export type LogLine = Schemas["LogLine"];
/** Something that happened; a browser's Event is something else. */
export type NodeEvent = Schemas["Event"];
export type PortStats = Schemas["PortStats"];
export type Stub = Schemas["StubObject"];
export type Vnic = Schemas["VnicObject"];
export type Wire = Schemas["WireObject"];

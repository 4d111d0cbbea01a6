//! Elements of Click's that belong to no group of its own: making packets legal, answering and
//! ending TCP, and frames in streams of bytes.

pub(crate) mod segment;

crate::elements! {
    buffer_converter: BufferConverter;
    copy_flow_id: CopyFlowID;
    copy_tcp_seq: CopyTCPSeq;
    force_icmp: ForceICMP;
    force_ip: ForceIP;
    force_tcp: ForceTCP;
    force_udp: ForceUDP;
    reframe: Reframe;
    round_robin_unqueue: RoundRobinUnqueue;
    tcp_ack: TCPAck;
    tcp_buffer: TCPBuffer;
    tcp_conn: TCPConn;
    tcp_demux: TCPDemux;
    tcp_reflector: TCPReflector;
    web_gen: WebGen;
}

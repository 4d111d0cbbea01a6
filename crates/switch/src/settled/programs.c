// The kernel's part of settled flows: two programs for each host interface, over the same maps.
//
// A packet socket sees a frame before the interface's ingress hook does. So the socket's filter decides: it takes no frame
// of a settled flow, counts it, and leaves word in a cell of this processor, which the program at the ingress hook, next on
// the same processor, finds: that changes the headers and redirects the frame. A decision is made once, so that no frame
// is passed on by both.
//
// Struct names and helper numbers: linux/bpf.h.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SECTION(name) __attribute__((section(name), used))
#define NEXT -1          // TCX_NEXT: as if this program were not there
#define DROP 2           // TCX_DROP
#define TAKE 0xffffffffu // a packet socket takes the whole frame
#define MARK_ZERO 0x20   // BPF_F_MARK_MANGLED_0: a UDP checksum of 0 stays none
#define PSEUDO 0x10      // BPF_F_PSEUDO_HDR
#define RECOMPUTE 1      // BPF_F_RECOMPUTE_CSUM: no sum in the header makes up for the change

struct __sk_buff {
	u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto;
	u32 priority, ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end;
	u32 napi_id, family, remote_ip4, local_ip4, remote_ip6[4], local_ip6[4], remote_port, local_port;
	u32 data_meta;
	u64 flow_keys, tstamp;
	u32 wire_len, gso_segs;
};

static void *(*map_lookup)(void *, const void *) = (void *)1;
static u64 (*now_ns)(void) = (void *)5;
static long (*store_bytes)(struct __sk_buff *, u32, const void *, u32, u64) = (void *)9;
static long (*l3_replace)(struct __sk_buff *, u32, u64, u64, u64) = (void *)10;
static long (*l4_replace)(struct __sk_buff *, u32, u64, u64, u64) = (void *)11;
static long (*redirect)(u32, u64) = (void *)23;
static long (*load_bytes)(const struct __sk_buff *, u32, void *, u32) = (void *)26;

struct map {
	u32 type, key_size, value_size, max_entries, flags;
};

// What follows is laid out as in settled/layout.rs.

struct key {
	u32 link; // the interface by which the frame comes
	u32 source[4], destination[4]; // of IPv4, mapped addresses
	u16 source_port, destination_port;
	u32 protocol;
};

#define CELLS 3
#define REWRITE 1 // addresses or ports change
#define HOPS 2    // the time to live is one less
#define IP6 4     // in a verdict: the frame is IPv6
#define SHORTEST 60 // bytes to which Ethernet pads a frame
#define MAPPED 0xffff0000u // the third word of a mapped address
#define ETHER_IP4 0x0008
#define ETHER_IP6 0xdd86

struct rule {
	u32 live;
	u32 out; // the interface by which the frame leaves
	u32 cells[CELLS];
	u32 spare;
	u64 epochs[CELLS];
	u8 macs[12], to_macs[12];
	u32 source, destination;
	u16 source_port, destination_port;
	u32 flags;
	u64 until;  // in force until then, in nanoseconds
	u64 up;     // when a frame went to the guest last
	u64 last;   // when a frame came last
	u64 frames, bytes;
};

struct verdict {
	u32 len; // of the frame; 0: no word
	u32 link;
	u32 out, flags, protocol;
	u32 was[2], is[2];    // addresses of IPv4
	u16 was_ports[2], is_ports[2];
	u16 was_hops, is_hops; // with the protocol; of IPv6, behind it
	u8 macs[12];
};

#define RULES 65536
#define EPOCHS 131072
#define PERIOD 1000000000ull // a frame of each flow goes to the guest so often

SECTION("maps") struct map flows = { 1, sizeof(struct key), 4, RULES, 0 };
SECTION("maps") struct map rules = { 2, 4, sizeof(struct rule), RULES, 1 << 10 };
// Elements of a map that is mapped lie 8 bytes apart at least.
SECTION("maps") struct map epochs = { 2, 4, 8, EPOCHS, 1 << 10 };
SECTION("maps") struct map verdicts = { 6, 4, sizeof(struct verdict), 1, 0 };

struct head {
	u8 macs[12];
	u16 type;
	u8 version, service;
	u16 length, number, fragment;
	u8 hops, protocol;
	u16 sum;
	u32 source, destination;
	u16 source_port, destination_port;
} __attribute__((packed));

struct head6 {
	u8 macs[12];
	u16 type;
	u32 version;
	u16 length;
	u8 protocol, hops;
	u32 source[4], destination[4];
	u16 source_port, destination_port;
} __attribute__((packed));

static __attribute__((always_inline)) int is_current(struct rule *rule)
{
#pragma clang loop unroll(full)
	for (int i = 0; i < CELLS; i++) {
		u32 cell = rule->cells[i];
		u64 *epoch = map_lookup(&epochs, &cell);
		if (!epoch || *epoch != rule->epochs[i])
			return 0;
	}
	return 1;
}

static __attribute__((always_inline)) u16 swapped(u16 x)
{
	return x << 8 | x >> 8;
}

// Whether a header's length and sum are right, and nothing follows the packet but Ethernet's padding.
static __attribute__((always_inline)) int is_right(struct head *head, u32 len)
{
	u32 sum = 0;
	u8 *at = &head->version;
#pragma clang loop unroll(full)
	for (int i = 0; i < 20; i += 2)
		sum += at[i] | at[i + 1] << 8;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	u32 packet = 14 + swapped(head->length);
	u32 least = 34 + (head->protocol == 6 ? 20 : 8);
	return sum == 0xffff && packet >= least && (packet == len || (packet < len && len <= SHORTEST));
}

// The same of IPv6, whose shortest frames need no padding.
static __attribute__((always_inline)) int is_right6(struct head6 *head, u32 len)
{
	u32 packet = 54 + swapped(head->length);
	return packet == len && packet >= 54 + (head->protocol == 6 ? 20 : 8);
}

SECTION("socket")
u32 settled_filter(struct __sk_buff *frame)
{
	u32 zero = 0;
	struct verdict *word = map_lookup(&verdicts, &zero);
	if (!word)
		return TAKE;
	word->len = 0;
	if (frame->vlan_present)
		return TAKE;
	union {
		u8 macs[12];
		struct head four;
		struct head6 six;
	} head = {};
	struct key key = { .link = frame->ifindex };
	u32 transport; // where TCP's or UDP's header is
	u32 hops;
	if (frame->protocol == ETHER_IP4) {
		if (load_bytes(frame, 0, &head, sizeof(struct head)))
			return TAKE;
		if (head.four.type != ETHER_IP4 || head.four.version != 0x45 || head.four.fragment & 0xff3f)
			return TAKE;
		transport = 34;
		hops = head.four.hops;
		key.source[2] = key.destination[2] = MAPPED;
		key.source[3] = head.four.source;
		key.destination[3] = head.four.destination;
		key.source_port = head.four.source_port;
		key.destination_port = head.four.destination_port;
		key.protocol = head.four.protocol;
	} else if (frame->protocol == ETHER_IP6) {
		if (load_bytes(frame, 0, &head, sizeof(struct head6)))
			return TAKE;
		if (head.six.type != ETHER_IP6 || (head.six.version & 0xf0) != 0x60)
			return TAKE;
		transport = 54;
		hops = head.six.hops;
		__builtin_memcpy(key.source, head.six.source, 16);
		__builtin_memcpy(key.destination, head.six.destination, 16);
		// Those of IPv4 here.
		if (!key.source[0] && !key.source[1] && key.source[2] == MAPPED)
			return TAKE;
		key.source_port = head.six.source_port;
		key.destination_port = head.six.destination_port;
		key.protocol = head.six.protocol;
	} else {
		return TAKE;
	}
	u32 *at = map_lookup(&flows, &key);
	if (!at)
		return TAKE;
	if (transport == 34 ? !is_right(&head.four, frame->len) : !is_right6(&head.six, frame->len))
		return TAKE;
	u32 index = *at;
	struct rule *rule = map_lookup(&rules, &index);
	if (!rule || !rule->live || !is_current(rule))
		return TAKE;
	u32 headers = transport + 8;
	if (key.protocol == 6) {
		u8 word[2]; // the header's length in words, and flags
		if (load_bytes(frame, transport + 12, word, 2))
			return TAKE;
		headers = transport + (word[0] >> 4) * 4;
		if (word[1] & 7) { // FIN, SYN, RST
			rule->live = 0;
			return TAKE;
		}
	}
	u64 now = now_ns();
	rule->last = now;
	if (now > rule->until) {
		rule->live = 0;
		return TAKE;
	}
	if (now - rule->up >= PERIOD) {
		rule->up = now;
		return TAKE;
	}
#pragma clang loop unroll(full)
	for (int i = 0; i < 12; i++)
		if (head.macs[i] != rule->macs[i])
			return TAKE;
	if (rule->flags & HOPS && hops < 2)
		return TAKE;
	if (rule->flags & REWRITE && transport != 34)
		return TAKE;
	word->link = frame->ifindex;
	word->out = rule->out;
	word->flags = rule->flags | (transport == 34 ? 0 : IP6);
	word->protocol = key.protocol;
	word->was[0] = key.source[3];
	word->was[1] = key.destination[3];
	word->is[0] = rule->source;
	word->is[1] = rule->destination;
	word->was_ports[0] = key.source_port;
	word->was_ports[1] = key.destination_port;
	word->is_ports[0] = rule->source_port;
	word->is_ports[1] = rule->destination_port;
	if (transport == 34) {
		word->was_hops = hops | key.protocol << 8;
		word->is_hops = (u8)(hops - 1) | key.protocol << 8;
	} else {
		word->is_hops = key.protocol | (u8)(hops - 1) << 8;
	}
	__builtin_memcpy(word->macs, rule->to_macs, 12);
	u32 segments = frame->gso_segs ? frame->gso_segs : 1;
	__sync_fetch_and_add(&rule->frames, segments);
	__sync_fetch_and_add(&rule->bytes, frame->len + (segments - 1) * headers);
	word->len = frame->len;
	return 0;
}

SECTION("classifier")
int settled_ingress(struct __sk_buff *frame)
{
	u32 zero = 0;
	struct verdict *word = map_lookup(&verdicts, &zero);
	if (!word || !word->len || word->len != frame->len || word->link != frame->ifindex)
		return NEXT;
	word->len = 0;
	u32 sum = word->protocol == 6 ? 50 : 40;
	u32 zeros = word->protocol == 6 ? 0 : MARK_ZERO;
	if (word->flags & REWRITE) {
#pragma clang loop unroll(full)
		for (int i = 0; i < 2; i++) {
			u32 was = word->was[i], is = word->is[i];
			if (was != is && (l4_replace(frame, sum, was, is, PSEUDO | zeros | 4) ||
			                  l3_replace(frame, 24, was, is, 4) ||
			                  store_bytes(frame, 26 + 4 * i, &is, 4, 0)))
				return DROP;
			u16 port = word->was_ports[i], to = word->is_ports[i];
			if (port != to && (l4_replace(frame, sum, port, to, zeros | 2) ||
			                   store_bytes(frame, 34 + 2 * i, &to, 2, 0)))
				return DROP;
		}
	}
	if (word->flags & HOPS && word->flags & IP6) {
		u16 is = word->is_hops;
		if (store_bytes(frame, 20, &is, 2, RECOMPUTE))
			return DROP;
	} else if (word->flags & HOPS) {
		u16 was = word->was_hops, is = word->is_hops;
		if (l3_replace(frame, 24, was, is, 2) || store_bytes(frame, 22, &is, 2, 0))
			return DROP;
	}
	u8 macs[12];
	__builtin_memcpy(macs, word->macs, 12);
	if (store_bytes(frame, 0, macs, 12, 0))
		return DROP;
	return redirect(word->out, 0);
}

SECTION("license") char licence[] = "Apache-2.0";

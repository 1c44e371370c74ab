/* raw - datagrams in Ethernet frames through a raw packet queue pair of an mlx5 device: what the
 * module's files share.
 *
 * All access to a device goes through one table, struct raw_device_ops, so all other code also runs
 * over a simulated device in plain memory (test/io/raw).
 *
 * Layer: io, module lend_io_raw.so. Threads: a carrier and its device belong to one thread.
 */
#ifndef LEND_IO_RAW_RAW_H
#define LEND_IO_RAW_RAW_H

#include "io/eth/addr.h"
#include "io/io.h"
#include "io/raw/rx.h"
#include "io/peer_table.h"
#include "sys/mapped_memory.h"

enum {
	RAW_BURST = 32,  /* frames per doorbell */
	RAW_SIGNAL = 32, /* frames sent per completion; a power of two */
	RAW_SEND_SLOTS = 512,
	RAW_BUFFERS = 16,    /* receive buffers, a power of two */
	RAW_STRIDE_LOG = 8,  /* 256 bytes: a small datagram takes one */
	RAW_STRIDES_LOG = 9, /* 128 KiB a buffer */
	RAW_FRAME_MAX = 9216,
	RAW_TICK = 256, /* polls between two checks of the clock and the device's state */
};

/* A device's capabilities and its network interface. */
struct raw_facts {
	char netdev[16]; /* the kernel's name of its Ethernet interface */
	uint8_t mac[6];
	uint32_t mtu;          /* MTU of that interface */
	bool checksums;        /* computes IPv4 and UDP checksums of frames it sends */
	uint32_t inline_max;   /* maximum bytes of inline data per send */
	uint8_t stride_log[2]; /* minimum and maximum of the log2 of a stride's bytes */
	uint8_t strides_log[2];
};

/* The memory and queue sizes that a carrier passes to a device. The memory is page-aligned and
 * outlives the device. */
struct raw_memory {
	uint8_t *memory; /* receive buffers, then send slots */
	size_t len;
	uint32_t stride_log, strides_log, buffers;
	uint32_t sends;
};

/* A steering rule: frames that a device passes to this carrier. */
enum raw_flow_kind { RAW_FLOW_UDP, RAW_FLOW_NEIGHBOURS };
struct raw_flow {
	enum raw_flow_kind kind; /* neighbours: ARP and ND, which others get, too */
	struct lend_eth_end to;
};

struct raw_send {
	const uint8_t *data;
	uint32_t len;
	bool signal; /* report the completion of this and all earlier sends */
};

enum raw_side { RAW_RECEIVING, RAW_SENDING };
enum raw_link { RAW_UP, RAW_DOWN, RAW_REMOVED };
struct raw_health {
	enum raw_link link;
	uint64_t overruns; /* frames dropped for lack of a receive buffer, in total */
};

struct raw_device {
	const struct raw_device_ops *ops;
	struct raw_facts facts;
	struct raw_queue queue; /* queue memory, valid from start() on */
	int fd;                 /* readable after an armed completion; -1: none */
};

struct raw_device_ops {
	/* Finds a device by name and fills in its facts; makes no queue yet. 0 or -errno with
	 * lend_why(). */
	int (*open)(const char *name, struct raw_device **device);
	/* Makes the queues: 0 or -errno with lend_why(). The receive queue is empty. */
	int (*start)(struct raw_device *device, const struct raw_memory *memory);
	int (*steer)(struct raw_device *device, const struct raw_flow *flow);
	/* Posts frames with one doorbell. Returns how many it took. */
	uint32_t (*send)(struct raw_device *device, const struct raw_send *send, uint32_t n);
	/* Returns the number of signalled sends completed since the last call. -EIO: the queue
	 * stopped, see revive(). */
	int (*sent)(struct raw_device *device);
	/* Restarts one side's queue after an error, empty: 0 or -errno. */
	int (*revive)(struct raw_device *device, enum raw_side side);
	/* Requests a signal at fd for the first completion from number `next` on. */
	void (*arm)(struct raw_device *device, uint32_t next);
	/* Clears the signals at fd. */
	void (*calm)(struct raw_device *device);
	/* Reads link state and dropped frames, as far as the device reports them. */
	void (*look)(struct raw_device *device, struct raw_health *health);
	void (*close)(struct raw_device *device);
};

/* mlx5.c; test/io/raw/fake.c */
extern const struct raw_device_ops raw_device_ops;

enum { RAW_KEYS = LEND_ETH_FROM | LEND_ETH_VIA | LEND_ETH_MAC | LEND_ETH_VLAN | LEND_ETH_MTU };

struct raw_peer {
	struct lend_eth_head head;
	struct lend_ip hop; /* next hop: the peer itself or a router */
	bool has_hop;
	bool fixed; /* its MAC was given with its address */
};

struct raw {
	struct lend_io io; /* first */
	struct raw_device *device;
	char name[64];              /* name of the device */
	struct lend_mapping memory; /* receive buffers, then send slots */
	int claim; /* a socket that reserves our UDP port in the kernel; -1: none */
	struct lend_eth_end self;

	struct raw_rx rx;
	bool broken;            /* the receive queue must be restarted */
	bool deaf;              /* the device does not deliver ARP and neighbour discovery to us */
	bool removed;           /* the device is gone: its peers are reported as gone */
	uint32_t gone_reported; /* number of peer indices already reported */
	uint32_t polls;
	lend_ns looked; /* time of the last check of the device's health */
	struct raw_health health;

	uint8_t *slots; /* slots for frames to send */
	uint32_t slot_len;
	uint32_t head, tail; /* frames posted and completed, free-running counters */

	struct lend_hosts hosts;
	uint32_t hosts_seen; /* version of hosts when peers' headers were last updated */
	lend_ns renew; /* time of the next update of peers' headers, even if hosts is unchanged */
	struct lend_udp_peers peers;
	struct raw_peer *peer; /* peers by index, peer_n entries */
	uint32_t peer_n;
};

/* peer.c */
/* Returns the peer that a frame came from, or -1. */
int32_t raw_peer_of(struct raw *io, const struct lend_eth_frame *frame);
int raw_peer_resolve(struct raw *io, const struct lend_eth_address *to, uint32_t *peer);
/* Processes an ARP or neighbour discovery frame, and replies to a request for our address. */
void raw_peer_update(struct raw *io, const uint8_t *bytes, uint32_t len);
/* Sends the requests that are due, and writes learned MACs into the peers' headers. */
void raw_peer_tick(struct raw *io, lend_ns now);

/* send.c */
uint64_t raw_queued(struct lend_io *io);
void raw_tx(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n);
/* Sends one ARP or neighbour discovery frame; it is dropped when there is no room. */
void raw_send_frame(struct raw *io, const uint8_t *bytes, uint32_t len);
/* Frees the slots of completed sends, and restarts a queue that stopped. */
void raw_send_reap(struct raw *io);
bool raw_send_is_full(const struct raw *io);

/* carrier.c */
extern const struct lend_io_ops raw_ops;
void raw_close(struct lend_io *io);

#endif

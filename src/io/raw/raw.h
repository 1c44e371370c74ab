/* raw - datagrams in Ethernet frames through a raw packet queue pair of an mlx5 device: what the
 * module's files share.
 *
 * The few things that are asked of a device stand in one table, struct raw_device_ops, so that all
 * the rest runs over any machine's memory (test/io/raw).
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
	RAW_SIGNAL = 32, /* one completion for as many frames sent; a power of two */
	RAW_SEND_SLOTS = 512,
	RAW_BUFFERS = 16,    /* receive buffers, a power of two */
	RAW_STRIDE_LOG = 8,  /* 256 bytes: a small datagram takes one */
	RAW_STRIDES_LOG = 9, /* 128 KiB a buffer */
	RAW_FRAME_MAX = 9216,
	RAW_TEND = 256, /* polls between two looks at the clock and the device's state */
};

/* What a device can do and where it sits. */
struct raw_facts {
	char netdev[16]; /* the kernel's name of its Ethernet interface */
	uint8_t mac[6];
	uint32_t mtu;          /* of that interface */
	bool checksums;        /* sums up IPv4 and UDP in what it sends */
	uint32_t inline_max;   /* bytes of a frame that a send may carry in itself */
	uint8_t stride_log[2]; /* least and most */
	uint8_t strides_log[2];
};

/* What a carrier gives a device to work with; memory is page-aligned and outlives it. */
struct raw_memory {
	uint8_t *memory; /* receive buffers, then send slots */
	size_t len;
	uint32_t stride_log, strides_log, buffers;
	uint32_t sends;
};

/* Frames that a device is to hand to this carrier. */
enum raw_flow_kind { RAW_FLOW_UDP, RAW_FLOW_NEIGHBOURS };
struct raw_flow {
	enum raw_flow_kind kind; /* neighbours: ARP or neighbour discovery, which others see too */
	struct lend_eth_end to;
};

struct raw_send {
	const uint8_t *data;
	uint32_t len;
	bool signal; /* tell when this one and all before it are out */
};

enum raw_side { RAW_RECEIVING, RAW_SENDING };
enum raw_link { RAW_UP, RAW_DOWN, RAW_REMOVED };
struct raw_health {
	enum raw_link link;
	uint64_t overruns; /* frames that found no receive buffer, ever */
};

struct raw_device {
	const struct raw_device_ops *ops;
	struct raw_facts facts;
	struct raw_queue queue; /* from start() on */
	int fd;                 /* readable after an armed completion; -1: none */
};

struct raw_device_ops {
	/* Finds a device by name and learns its facts; holds no queue yet. 0 or -errno with
	 * lend_why(). */
	int (*open)(const char *name, struct raw_device **device);
	/* Makes the queues: 0 or -errno with lend_why(). The receive queue is empty. */
	int (*start)(struct raw_device *device, const struct raw_memory *memory);
	int (*steer)(struct raw_device *device, const struct raw_flow *flow);
	/* Posts frames, one doorbell; how many it took. */
	uint32_t (*send)(struct raw_device *device, const struct raw_send *send, uint32_t n);
	/* Signalled sends that are out, each once; -EIO: the queue stopped, see revive(). */
	int (*sent)(struct raw_device *device);
	/* Makes one side's queue work again after an error, empty: 0 or -errno. */
	int (*revive)(struct raw_device *device, enum raw_side side);
	/* Asks for a signal at fd with the completion after the next'th. */
	void (*arm)(struct raw_device *device, uint32_t next);
	/* Takes back the signals at fd. */
	void (*calm)(struct raw_device *device);
	/* How it is, as far as it can tell. */
	void (*look)(struct raw_device *device, struct raw_health *health);
	void (*close)(struct raw_device *device);
};

/* mlx5.c; test/io/raw/fake.c */
extern const struct raw_device_ops raw_device_ops;

enum { RAW_KEYS = LEND_ETH_FROM | LEND_ETH_VIA | LEND_ETH_MAC | LEND_ETH_VLAN | LEND_ETH_MTU };

struct raw_peer {
	struct lend_eth_head head;
	struct lend_ip hop; /* whose MAC it is reached at: its own or a router's */
	bool has_hop;
	bool fixed; /* its MAC was given with its address */
};

struct raw {
	struct lend_io io; /* first */
	struct raw_device *device;
	char name[64];           /* the device's */
	struct lend_heap memory; /* receive buffers, then send slots */
	int claim;               /* a socket that holds our UDP port in the kernel, -1: none */
	struct lend_eth_end self;

	struct raw_rx rx;
	bool broken;   /* the receive queue is to be made anew */
	bool deaf;     /* the device does not show us who asks and answers for addresses */
	bool removed;  /* the device is gone: peers are told of */
	uint32_t told; /* of so many peers */
	uint32_t polls;
	lend_ns looked; /* at the device's health */
	struct raw_health health;

	uint8_t *slots; /* of frames to send */
	uint32_t slot_len;
	uint32_t head, tail; /* sent and out, counted for ever */

	struct lend_hosts hosts;
	uint32_t hosts_seen; /* their version when heads were last written, */
	lend_ns renew;       /* and when to write them again all the same */
	struct lend_udp_peers peers;
	struct raw_peer *peer; /* by index, peer_n of them */
	uint32_t peer_n;
};

/* peer.c */
/* The peer that a frame came from, or -1. */
int32_t raw_peer_of(struct raw *io, const struct lend_eth_frame *frame);
int raw_peer_resolve(struct raw *io, const struct lend_eth_address *to, uint32_t *peer);
/* ARP or neighbour discovery: hears, and answers what asks for us. */
void raw_peer_heard(struct raw *io, const uint8_t *bytes, uint32_t len);
/* Asks what is due to be asked, and takes what was learned into the peers' heads. */
void raw_peer_tend(struct raw *io, lend_ns now);

/* send.c */
void raw_tx(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n);
/* One frame of our own making; lost when there is no room. */
void raw_send_frame(struct raw *io, const uint8_t *bytes, uint32_t len);
/* Learns which sends are out, and makes a queue that stopped anew. */
void raw_send_reap(struct raw *io);
bool raw_send_is_full(const struct raw *io);

/* carrier.c */
extern const struct lend_io_ops raw_ops;
void raw_close(struct lend_io *io);

#endif

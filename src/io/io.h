/* io - a carrier of datagrams. It may lose, repeat and reorder them; it may not invent or join.
 *
 * Layer: io. One carrier belongs to one thread. Every carrier passes test/io/conform.c.
 */
#ifndef LEND_IO_IO_H
#define LEND_IO_IO_H

#include <stdbool.h>
#include <stddef.h>

#include "util/dgram.h"

struct lend_io;

struct lend_io_who {
	int64_t uid;       /* -1: unknown */
	char address[104]; /* as resolve() takes it */
};

/* One indirect call per burst on the hot path, never one per datagram. */
struct lend_io_ops {
	/* Lends up to cap datagrams until rx_done(); returns how many, without waiting. */
	uint32_t (*rx)(struct lend_io *io, struct lend_in *in, uint32_t cap);
	void (*rx_done)(struct lend_io *io);
	/* Queues what it can and marks each datagram sent, full or dead: a stopped peer blocks no
	 * other. */
	void (*tx)(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n);
	/* Waits, boundedly, until no queued piece of buf is read any more; false: still lent.
	 * NULL: pieces are copied before tx() returns. */
	bool (*flush)(struct lend_io *io, uint32_t buf);

	/* Sleeping. fd is -1 where the device has no interrupt; arm() returns false when work came
	 * meanwhile, or for a moment where a peer has just come, who will have more to say. */
	int (*fd)(struct lend_io *io);
	bool (*arm)(struct lend_io *io);

	/* Cold path. Pieces lie in memory given to reg(); NULL: in any. */
	int (*reg)(struct lend_io *io, void *memory, size_t len);
	/* An address to a peer index: 0, -EINPROGRESS (ask again) or -errno. */
	int (*resolve)(struct lend_io *io, const char *address, uint32_t *peer);
	/* Keeps an unknown sender's index past its burst, or lets it go. */
	void (*pin)(struct lend_io *io, uint32_t peer, bool kept);
	/* Who a peer is, as far as the carrier can tell. */
	void (*who)(struct lend_io *io, uint32_t peer, struct lend_io_who *who);
	/* Where others reach this carrier; 0, -ERANGE, or -errno of the system. */
	int (*name)(struct lend_io *io, char *address, size_t cap);
	void (*close)(struct lend_io *io);
};

/* What a carrier counts; what it hands to the device is counted by the loop. */
#define LEND_IO_STATS(X)                                                                           \
	X(rx_truncated, "larger than the carrier's MTU, cut or dropped")                           \
	X(rx_foreign, "not for this carrier: other port, protocol, address or VLAN")               \
	X(rx_bad, "ring slots or frames that contradict themselves")                               \
	X(rx_checksum, "frames with a wrong IP or UDP checksum")                                   \
	X(rx_fragment, "pieces of IP packets: not put together again")                             \
	X(rx_missed, "dropped below the carrier: its queue was full (verbs: times it was)")        \
	X(rx_handed, "came to another endpoint's queue on the same device: handed over")           \
	X(tx_full, "refused because the peer or device was full")                                  \
	X(tx_dead, "for a peer that is gone")                                                      \
	X(tx_in_place, "long pieces that a DPDK driver read where they lay")                       \
	X(link_down, "times that the device's link went down")                                     \
	X(address_clash, "claims of another host to this carrier's IP address")                    \
	X(peers_refused, "peers turned away: table full, or wrong version")                        \
	X(accepts_deferred, "times that a connection had to wait for a free file descriptor")      \
	X(capture_lost, "not in the capture: its file failed or its reader is slow")               \
	X(port_events, "ports, addresses and devices that came or went")                           \
	X(resets, "times a queue in error was brought back")                                       \
	X(handles_made, "address handles made")

struct lend_io_stats {
#define X(name, text) uint64_t name;
	LEND_IO_STATS(X)
#undef X
};

struct lend_io {
	const struct lend_io_ops *ops; /* first member of every carrier's own struct */
	struct lend_path path;
	bool quick;  /* a poll that finds nothing costs less than the rest of a turn */
	lend_ns due; /* when rx() must come at the latest, if nothing arrives; 0: never */
	struct lend_io_stats stats;
};

static inline bool lend_io_flush(struct lend_io *io, uint32_t buf)
{
	return !io->ops->flush || io->ops->flush(io, buf);
}

static inline int lend_io_reg(struct lend_io *io, void *memory, size_t len)
{
	return io->ops->reg ? io->ops->reg(io, memory, len) : 0;
}

struct lend_io_config {
	const char *listen; /* "shm:shop", "udp:127.0.0.1:0"; NULL: a client's carrier */
	const char *peer;   /* whom a client will resolve first; picks device and MTU */
	const char *eal;    /* DPDK's arguments, for a process's first; NULL: from the address */
	uint32_t mtu;       /* 0: the carrier's own choice */
	bool shares; /* the user knows of bodies: lend_in.body, and lend_out longer than the MTU
			where it is one piece of shared memory for a peer that reads it */
	/* As in lend_config; NULL and 0: what the environment says. */
	const char *capture;
	uint64_t capture_limit;
	uint32_t capture_snap;
};

/* Opens the carrier that an address's scheme names; loads its module where it has one. 0, or -errno
 * with lend_why() set: -EINVAL (does not parse), -EADDRINUSE, -EADDRNOTAVAIL, -ENODEV (no such
 * carrier or device here), -ENOMEM, -EPERM; or what a capture's file says. */
int lend_io_open(const struct lend_io_config *config, struct lend_io **io);
bool lend_io_same_scheme(const char *a, const char *b);
/* True when a carrier of one address can resolve() the other. */
bool lend_io_same_carrier(const char *a, const char *b);

#endif

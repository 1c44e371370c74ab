/* io - a carrier of datagrams. It may lose, duplicate and reorder datagrams. It never invents or
 * joins them.
 *
 * Layer: io. One carrier belongs to one thread. Every carrier passes test/io/conform.c.
 */
#ifndef LEND_IO_IO_H
#define LEND_IO_IO_H

#include <stdbool.h>
#include <stddef.h>

#include "io/carrier_kind.h"
#include "io/remote_read.h"
#include "util/dgram.h"

struct lend_io;

struct lend_io_peer_info {
	int64_t uid;       /* -1: unknown */
	char address[104]; /* address of the peer, as resolve() takes it */
};

/* One indirect call per burst on the hot path, never one per datagram. */
struct lend_io_ops {
	/* Lends up to cap datagrams until rx_done(); returns how many, without waiting. */
	uint32_t (*rx)(struct lend_io *io, struct lend_in *in, uint32_t cap);
	void (*rx_done)(struct lend_io *io);
	/* Queues the datagrams it can and marks each one sent, full or dead. A stopped peer does
	 * not block datagrams to other peers. */
	void (*tx)(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n);
	/* Returns the bytes handed to the device that have not left this host, as far as it reports
	 * them. Called only if path.counts is set; NULL in carriers that never set it. */
	uint64_t (*queued)(struct lend_io *io);
	/* Waits, for a bounded time, until no queued piece of buf is read any more. False: buf
	 * is still lent. NULL: tx() copies all pieces before it returns. */
	bool (*flush)(struct lend_io *io, uint32_t buf);

	/* Sleeping. fd is -1 where the device has no interrupt. arm() returns false when work
	 * arrived meanwhile. It also returns false for a moment after a new peer arrived,
	 * because more datagrams are expected from it. */
	int (*fd)(struct lend_io *io);
	bool (*arm)(struct lend_io *io);

	/* Cold path. Pieces must be in memory that was given to reg(). NULL: in any memory. */
	int (*reg)(struct lend_io *io, void *memory, size_t len);
	/* Resolves an address to a peer index: 0, -EINPROGRESS (call again) or -errno. */
	int (*resolve)(struct lend_io *io, const char *address, uint32_t *peer);
	/* Pins an unknown sender's index beyond its receive burst, or unpins it. */
	void (*pin)(struct lend_io *io, uint32_t peer, bool kept);
	/* Returns a peer's identity, as far as the carrier knows it. */
	void (*peer_info)(struct lend_io *io, uint32_t peer, struct lend_io_peer_info *peer_info);
	/* Returns the memory of a peer that this carrier maps for reading, as long as the peer is
	 * pinned, and its bytes. NULL: none is mapped. No function: that holds for all peers. */
	const void *(*peer_memory)(struct lend_io *io, uint32_t peer, uint64_t *len);
	/* Returns the address at which other endpoints reach this carrier: 0, -ERANGE, or -errno
	 * of the system. */
	int (*name)(struct lend_io *io, char *address, size_t cap);
	void (*close)(struct lend_io *io);
};

/* Counters of a carrier. Datagrams handed to the device are counted by the event loop. */
#define LEND_IO_STATS(X)                                                                           \
	X(rx_truncated, "larger than the carrier's MTU, cut or dropped")                           \
	X(rx_foreign, "not for this carrier: other port, protocol, address or VLAN")               \
	X(rx_bad, "invalid ring slots or frames")                                                  \
	X(rx_checksum, "frames with a wrong IP or UDP checksum")                                   \
	X(rx_fragment, "IP fragments: not reassembled")                                            \
	X(rx_missed, "dropped below the carrier: its queue was full (verbs: times it was)")        \
	X(rx_handed, "arrived in another endpoint's queue of the same device: forwarded")          \
	X(tx_full, "refused because the peer or device was full")                                  \
	X(tx_dead, "for a peer that has ended")                                                    \
	X(tx_in_place, "datagrams with pieces that a device or its driver read in place")          \
	X(link_down, "times that the device's link went down")                                     \
	X(address_clash, "claims of another host to this carrier's IP address")                    \
	X(peers_refused, "peers refused: table full, or wrong version")                            \
	X(accepts_deferred, "connections that waited for a free file descriptor")                  \
	X(capture_lost, "not in the capture: its file failed or its reader is slow")               \
	X(port_events, "ports, addresses and devices added or removed")                            \
	X(resets, "queues in error that were restarted")                                           \
	X(handles_made, "address handles created")                                                 \
	X(one_sided_shows, "runs of memory shown to a peer's device")                              \
	X(one_sided_reads, "reads of a peer's memory by the device, without its CPU")

struct lend_io_stats {
#define X(name, text) uint64_t name;
	LEND_IO_STATS(X)
#undef X
};

struct lend_io {
	const struct lend_io_ops *ops;              /* first member of every carrier's own struct */
	const struct lend_carrier_kind *kind;       /* set by lend_io_open() */
	const struct lend_one_sided_ops *one_sided; /* NULL: peers read no memory of this end */
	struct lend_path path;
	bool cheap_poll; /* a poll that finds nothing costs less than the rest of an event-loop turn
			  */
	lend_ns due; /* time of the next rx() call, at the latest, if nothing arrives; 0: none */
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

/* Receives numbers about an endpoint, for tools outside of the process. Names are letters, digits
 * and '_'. */
struct lend_io_sink {
	void (*begin)(struct lend_io_sink *sink, const char *name); /* a group, within the last */
	void (*end)(struct lend_io_sink *sink);
	void (*text)(struct lend_io_sink *sink, const char *name, const char *value);
	void (*number)(struct lend_io_sink *sink, const char *name, uint64_t value);
};
/* Counters of an endpoint; its sessions; what its application publishes. */
enum lend_io_topic { LEND_IO_ENDPOINT, LEND_IO_SESSIONS, LEND_IO_NODE };

struct lend_io_config {
	const char *listen; /* address such as "shm:shop"; NULL: a client's carrier */
	const char *peer;   /* address that a client resolves first; picks device and MTU */
	const char *eal;    /* DPDK's EAL arguments, used by the process's first carrier; NULL: from
			       the address */
	uint32_t mtu;       /* 0: the carrier's own choice */
	bool shares; /* the user handles bodies: lend_in.body, and lend_out longer than the MTU
			where it is one piece of shared memory for a peer that reads it */
	/* As in lend_config. NULL and 0: the environment decides. */
	const char *capture;
	uint64_t capture_limit;
	uint32_t capture_snap;
	/* Describes `user`, which opened the carrier: at most `most` sessions, from the one with
	 * number `from` on. The carrier calls it in rx(). NULL: there is nothing to describe. */
	void (*describe)(void *user, enum lend_io_topic topic, uint32_t from, uint32_t most,
			 struct lend_io_sink *sink);
	void *user;
};

/* Opens the carrier that an address's scheme names, and loads its module where it has one. 0, or
 * -errno with lend_why() set: -EINVAL (does not parse), -EADDRINUSE, -EADDRNOTAVAIL, -ENODEV (no
 * such carrier or device here), -ENOMEM, -EPERM; or the error of the capture's file. */
int lend_io_open(const struct lend_io_config *config, struct lend_io **io);
bool lend_io_same_scheme(const char *a, const char *b);
/* Returns whether a carrier of one address can resolve() the other. */
bool lend_io_same_carrier(const char *a, const char *b);

#endif

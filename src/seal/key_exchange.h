/* key_exchange - the handshake datagrams of sealed sessions: what is clear in the core is encrypted
 * on the wire, and the secrets that both ends have at the end.
 *
 *   client  FREE -> SENT (CONNECT is sealed once and repeated) -> FREE when its ACCEPT opens
 *   server  FREE -> OPENED (its CONNECT) -> ACCEPTED (ACCEPT is sealed once and repeated) -> FREE
 *
 * A record is indexed by our session. The first CONNECT of an attempt may resume an earlier session
 * by a ticket, with or without a 0-RTT call; the next one is a new first message, under a key of
 * its own, and either may be answered. A datagram is data and len without trailer.
 *
 * Layer: seal (pure). Lives in memory of its owner; holds secrets. */
#ifndef LEND_SEAL_KEY_EXCHANGE_H
#define LEND_SEAL_KEY_EXCHANGE_H

#include <stdbool.h>

#include "seal/noise.h"
#include "util/dgram.h"
#include "wire/pkt.h"

enum { LEND_KEX_MAC_KEY = 16, LEND_KEX_BURST = 64 };

/* The keys that a handshake datagram depends on. */
struct lend_kex_keys {
	uint64_t id; /* names psk */
	uint8_t psk[LEND_KEY];
	uint8_t mac_key[LEND_KEX_MAC_KEY]; /* makes mac1 */
	uint8_t server[LEND_KEY];          /* NK: the server's public key */
	uint8_t secret[LEND_KEY];          /* NK, at the server: its secret key */
	uint8_t ticket[LEND_KEY];          /* RESUME: the ticket's secret */
};

/* Secrets of a finished handshake. */
struct lend_kex_result {
	uint64_t session, peer_id; /* our id, the peer's */
	uint64_t key_id;
	uint8_t to_server[LEND_KEY], to_client[LEND_KEY];
	uint8_t binding[LEND_DIGEST];
	uint8_t suite, level, pattern;
	bool client;
};

struct lend_kex_stats {
	uint64_t bad_mac, bad_connect, bad_accept; /* dropped: forged, or made with another key */
	uint64_t resumed, full;                    /* handshakes of either kind that finished */
	uint64_t dh;                               /* X25519 operations */
};

struct lend_kex;
/* Returns the bytes of memory for this number of sessions. */
size_t lend_kex_size(uint32_t sessions);
/* Builds one inside zeroed memory. ops: kept. ticket_ns: lifetime of a ticket, at most 30 s. */
struct lend_kex *lend_kex_init(void *mem, const struct lend_seal_ops *ops, uint32_t sessions,
			       lend_ns ticket_ns);
const struct lend_kex_stats *lend_kex_stats(const struct lend_kex *x);

/* Derives the key of mac1 from a psk, or from a server's public key. */
void lend_kex_mac_key(const struct lend_seal_ops *ops, const uint8_t key[LEND_KEY],
		      uint8_t mac_key[LEND_KEX_MAC_KEY]);

/* At the client. Seals a CONNECT of session index sess. */
void lend_kex_connect(struct lend_kex *x, uint32_t sess, const struct lend_kex_keys *keys,
		      uint8_t *data, uint32_t len);
/* Opens an ACCEPT in place. Returns false: it is forged, or nothing waits for it. */
bool lend_kex_accepted(struct lend_kex *x, uint8_t *data, uint32_t len, struct lend_kex_result *to);

/* At the server. Begins a burst: CONNECTs that were opened and not claimed are forgotten. */
void lend_kex_burst(struct lend_kex *x);
/* Returns whether mac1 of a CONNECT is valid. */
bool lend_kex_mac_valid(struct lend_kex *x, const struct lend_kex_keys *keys, const uint8_t *data,
			uint32_t len);
/* Opens a CONNECT in place. address: a number of the sender's, for tickets. Returns false: it is
 * forged. */
bool lend_kex_open(struct lend_kex *x, const struct lend_kex_keys *keys, uint8_t *data,
		   uint32_t len, uint64_t address);
/* Notes the session (our id) that an opened CONNECT made. */
void lend_kex_claim(struct lend_kex *x, uint64_t session, const struct lend_pkt_connect *connect);
/* Seals the ACCEPT of session index sess. Returns 1: the handshake is finished, *to has its
 * secrets; 0: it was finished before, and the same bytes are sent again; -1: it cannot be sent.
 * now: for the ticket's secret. */
int lend_kex_accept(struct lend_kex *x, uint32_t sess, lend_ns now, uint8_t *data, uint32_t len,
		    struct lend_kex_result *to);
/* Computes the secret of a ticket that this end issued. False: it has expired. */
bool lend_kex_ticket_secret(struct lend_kex *x, lend_ns now, const struct lend_pkt_ticket *ticket,
			    uint64_t address, uint8_t secret[LEND_KEY]);

/* Wipes the record of a session that has ended, or is up. */
void lend_kex_forget(struct lend_kex *x, uint64_t session);
void lend_kex_close(struct lend_kex *x);

#endif

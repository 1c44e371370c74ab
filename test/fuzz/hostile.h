/* hostile - datagrams that no honest peer sends, made of choices. Layer: test. */
#ifndef TEST_FUZZ_HOSTILE_H
#define TEST_FUZZ_HOSTILE_H

#include "fuzz/world.h"

/* One to four fields of a datagram that was sent to this side, other than they were; the session
 * and the checksum are right, mostly. An invented one while nothing was sent yet. */
void hostile_mutate(struct choice *c, int to, struct world_dgram *d);
/* Any head, often with a session that lives; blocks and payload of any bytes. */
void hostile_invent(struct choice *c, int to, struct world_dgram *d);
/* Up to 80 bytes as they are chosen. */
void hostile_raw(struct choice *c, struct world_dgram *d);

/* Feeds it as peer index, and holds the core to what it owes for such a datagram: one that is
 * malformed, or that proves no session, changes nothing and raises nothing, but for the RESET that
 * an unknown session is answered with. */
void hostile_feed(int to, const struct world_dgram *d, uint32_t index);

#endif

/* counters - counters of a core. Declared once here; names and texts come from the same list.
 * Layer: core (pure). Outside the hashed part of the arena. */
#ifndef LEND_CORE_COUNTERS_H
#define LEND_CORE_COUNTERS_H

#include <stdint.h>

#define LEND_CORE_STATS(X)                                                                         \
	X(rx, "datagrams received")                                                                \
	X(tx, "datagrams offered to carriers")                                                     \
	X(rx_short, "shorter than a header, or than its kind")                                     \
	X(rx_long, "longer than the carrier's MTU")                                                \
	X(rx_version, "with another magic or version")                                             \
	X(rx_kind, "of an unknown kind or with unknown flags")                                     \
	X(rx_session, "for no session here")                                                       \
	X(rx_stale, "for an earlier generation of a session")                                      \
	X(rx_state, "not valid in this state")                                                     \
	X(rx_call, "with a call slot out of range or a stale sequence")                            \
	X(rx_length, "whose offset or length contradict the message's")                            \
	X(rx_dup, "seen before")                                                                   \
	X(rx_window, "outside what was granted")                                                   \
	X(rx_memory, "dropped for want of memory")                                                 \
	X(rx_full, "dropped because the queue of events was full")                                 \
	X(rx_too_big, "messages refused: longer than the limit")                                   \
	X(tx_full, "offered again because the carrier was full")                                   \
	X(host_waits, "times that a long message waited for the host's own queue")                 \
	X(repeats, "data datagrams retransmitted")                                                 \
	X(needless, "datagrams declared lost that had arrived")                                    \
	X(lost, "of long messages, declared lost by a report")                                     \
	X(probes, "probes sent")                                                                   \
	X(acks, "acknowledgements sent")                                                           \
	X(resets, "resets sent")                                                                   \
	X(rx_reset, "sessions ended by a peer's reset")                                            \
	X(timeouts, "calls ended by their deadline")                                               \
	X(greedy, "sessions ended because their peer sent more than it was granted")               \
	X(credit_back, "grants taken back because nothing arrived")                                \
	X(evicted, "partial messages evicted")                                                     \
	X(retries, "CONNECTs answered with RETRY and a cookie")                                    \
	X(refused, "CONNECTs refused: no session is free")                                         \
	X(rx_level, "CONNECTs refused: their level or suite is not accepted")                      \
	X(rx_own, "CONNECTs of this endpoint's own that came back")                                \
	X(rx_unproven, "without the proof of the session's key")                                   \
	X(no_record, "calls refused for want of a record")                                         \
	X(released, "unacknowledged replies released for other calls or withdrawn")                \
	X(cut, "partial requests of peers above their share ended")                                \
	X(idle_evicted, "idle sessions of peers above their share ended")                          \
	X(dead, "sessions ended by silence")                                                       \
	X(zero_rtt, "0-RTT calls that ran")                                                        \
	X(zero_rtt_replayed, "attempts to connect with a ticket, seen before")                     \
	X(zero_rtt_full, "0-RTT calls that did not run: no room to remember them")                 \
	X(zero_rtt_unknown, "0-RTT calls whose server did not know whether they ran")

struct lend_core_stats {
#define X(name, text) uint64_t name;
	LEND_CORE_STATS(X)
#undef X
};

#endif

/* plan - the parameters of one run, as a list of numbers with names.
 *
 * A plan can be written as text ("seed=7 nodes=3 loss_ppm=120000 ..."; numbers that are not named
 * have their default, which is without faults). So a failure is one line, and shrinking moves
 * numbers towards their defaults. Layer: test/sim. */
#ifndef TEST_SIM_PLAN_H
#define TEST_SIM_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name, default, description. ppm: per million. Drawn by sim_plan_draw(), which prefers
 * boundaries. */
#define SIM_PLAN(X)                                                                                \
	X(seed, 1, "seed of all random streams")                                                   \
	X(nodes, 2, "endpoints, memory nodes included")                                            \
	X(stores, 0, "number of memory nodes; the first nodes are")                                \
	X(calls, 8, "scripted calls to make")                                                      \
	X(memops, 0, "memory operations to make")                                                  \
	X(span_us, 1000, "time in which calls are made; then faults stop")                         \
	X(burst, 1, "calls made at once")                                                          \
	X(idle_us, 0, "pause in the middle of span_us")                                            \
	X(len_min, 0, "least length of a request or a reply")                                      \
	X(len_max, 64, "largest length")                                                           \
	X(later_ppm, 0, "requests answered with a delay")                                          \
	X(later_us, 100, "largest delay")                                                          \
	X(never_ppm, 0, "requests answered only when their caller is gone")                        \
	X(twice_ppm, 0, "requests answered twice")                                                 \
	X(fail_ppm, 0, "requests answered with a status, half of them as never run")               \
	X(nest_ppm, 0, "handlers that call another node first")                                    \
	X(back_ppm, 0, "calls on a session that the other end opened")                             \
	X(chain_ppm, 0, "messages in several segments")                                            \
	X(cancel_ppm, 0, "calls cancelled at a random time")                                       \
	X(deadline_ppm, 0, "calls with a deadline")                                                \
	X(deadline_us, 1000, "largest time to the deadline")                                       \
	X(named_ppm, 0, "calls with a reply buffer of their own")                                  \
	X(refuse_ppm, 0, "NEED answered with no memory")                                           \
	X(hangup_ppm, 0, "calls after which, or during which, their session is closed")            \
	X(dry_ppm, 0, "turns that find no memory for the core's pool")                             \
	X(bulk_pause_ppm, 0, "turns that start a pause of bulk data, or end one")                  \
	X(bulk_pause_us, 50, "longest such pause")                                                 \
	X(mtu, 1472, "largest datagram in bytes")                                                  \
	X(mtu_last, 0, "the same for the last node, if smaller; 0: mtu")                           \
	X(lossless, 0, "the carrier loses no datagram while both ends live")                       \
	X(checked, 0, "the carrier has checksums: no trailer")                                     \
	X(proven, 0, "addresses cannot be forged")                                                 \
	X(shared_ppm, 0, "messages in memory that most peers read; on a lossless path")            \
	X(sessions, 8, "of a core's table")                                                        \
	X(slots, 8, "calls per session and direction")                                             \
	X(slots_last, 0, "the same for the last node, if less; 0: slots")                          \
	X(keyed, 0, "number of nodes that connect under a key; all nodes have it")                 \
	X(sealed, 0, "enum lend_level of sessions under a key")                                    \
	X(inflight, 32, "calls per core and direction")                                            \
	X(reassemblies, 8, "per direction")                                                        \
	X(message_max, 1048576, "largest message in bytes")                                        \
	X(budget, 1048576, "receive budget in bytes")                                              \
	X(unscheduled, 65536, "bytes sent before a grant")                                         \
	X(order, 0, "within a class: 0 shortest first, 1 earliest deadline, 2 FIFO, 3 fair")       \
	X(classes, 1, "number of traffic classes")                                                 \
	X(probe_us, 500000, "idle time before a PING")                                             \
	X(dead_us, 5000000, "idle time before a peer is dead")                                     \
	X(room, 0, "receive room in datagrams that a core announces; 0: none")                     \
	X(joins, 0, "the receiver joins datagrams of equal length")                                \
	X(turn_ns, 0, "longest time from arrival to turn; in experiments: CPU time of a turn")     \
	X(ring, 256, "datagrams that can wait for a turn")                                         \
	X(full_ppm, 0, "sends that find the carrier full")                                         \
	X(mbps, 100000, "rate of every link")                                                      \
	X(delay_ns, 5000, "delay of every link")                                                   \
	X(jitter_ns, 0, "largest additional delay")                                                \
	X(buffer_kb, 4096, "shared by the ports of the switch")                                    \
	X(share, 0, "limit per port in eighths of the free buffer; 0: none")                       \
	X(mark_kb, 0, "a longer queue marks ECN; 0: never")                                        \
	X(queues, 1, "queues per switch port, urgent first, at most 8")                            \
	X(racks, 0, "number of leaf switches; 0: one switch")                                      \
	X(spines, 0, "switches that connect the leaves")                                           \
	X(speed, 1, "rate of links between switches, as a multiple of mbps")                       \
	X(spread, 0, "1: a spine is drawn per datagram; 0: per pair of nodes")                     \
	X(skew_ns, 0, "additional delay of each spine over the one before")                        \
	X(nic_speed, 1, "rate of a node's own device, as a multiple of mbps")                      \
	X(host_queue, 0, "that device's queue: 0 short, 1 long and reported to the core, 2 long")  \
	X(cpu_ns, 0, "experiments: CPU time of a batch of datagrams, received or sent")            \
	X(gso, 1, "experiments: datagrams in a row of one peer that are a batch")                  \
	X(foreign_mbps, 0, "load of a receiver's link by others, who never slow down")             \
	X(loss_ppm, 0, "datagrams lost")                                                           \
	X(loss_mask, 0, "bit i: the i-th datagram of the run is lost")                             \
	X(burst_ppm, 0, "datagrams that start a burst of losses")                                  \
	X(burst_len, 8, "largest number of datagrams in a burst")                                  \
	X(dup_ppm, 0, "datagrams that arrive twice")                                               \
	X(reorder_ppm, 0, "datagrams delayed")                                                     \
	X(reorder_ns, 100000, "largest such delay")                                                \
	X(corrupt_ppm, 0, "datagrams with flipped bits, where a trailer covers them")              \
	X(truncate_ppm, 0, "datagrams truncated")                                                  \
	X(replay_ppm, 0, "datagrams sent again, up to 10 minutes later")                           \
	X(hostile_ppm, 0, "datagrams accompanied by a forged one")                                 \
	X(partition_us, 0, "mean time between one-way partitions; 0: none")                        \
	X(crash_us, 0, "mean time between crashes; 0: none")                                       \
	X(keep_ppm, 0, "crashes of memory nodes that keep their memory")                           \
	X(pause_us, 0, "mean time between pauses; 0: none")                                        \
	X(pages, 256, "pages of a memory node")                                                    \
	X(page_bits, 12, "log2 of the page size, 12 to 21")                                        \
	X(clients, 2, "memory clients per node")                                                   \
	X(lease_us, 1000000, "lease time of a memory node")                                        \
	X(sums, 0, "memory nodes keep checksums of their pages")                                   \
	X(rot_ppm, 0, "memory operations before which a page loses a bit; with sums")              \
	X(cc, 0, "enum lend_cc of src/core/cc.h, and 256 times the credits of timely")             \
	X(ticket_us, 0, "lifetime of a ticket for 0-RTT calls; 0: none is given")                  \
	X(attempts, 64, "attempts to connect with a ticket that a core remembers, a power of two") \
	X(zero_rtt_ppm, 0, "calls that may be 0-RTT")                                              \
	X(fast, 0, "enum lend_fast of src/core/core.h")                                            \
	X(hoard, 0,                                                                                \
	  "table that the last node hoards: 1 records, 2 reassemblies, 3 memory, "                 \
	  "4 sessions, 5 memory of requests that go on for a while, 6 sessions with calls")        \
	X(hoard_mib, 16, "MiB of memory for long requests at node 0, with hoard")                  \
	X(defer_ppm, 0, "long requests whose memory is deferred once")                             \
	X(early_ppm, 0, "owned puts that come before their bytes")                                 \
	X(audit, 1000, "events between two audits; 0: one, at the end")

struct sim_plan {
#define X(name, calm, text) uint64_t name;
	SIM_PLAN(X)
#undef X
};

enum { SIM_PLAN_TEXT = 2048 };

struct sim_plan sim_plan_calm(void);
/* Draws a plan: which faults occur at all, and how often. */
struct sim_plan sim_plan_draw(uint64_t seed);
/* Writes the numbers that differ from their default, seed first. */
void sim_plan_write(const struct sim_plan *plan, char text[SIM_PLAN_TEXT]);
/* False: an unknown name or a bad number; *plan is then undefined. */
bool sim_plan_read(const char *text, struct sim_plan *plan);
/* Returns the i-th number's name; sets its value and its default. NULL behind the last. */
const char *sim_plan_field(struct sim_plan *plan, size_t i, uint64_t **value, uint64_t *calm);

#endif

/* plan - everything that is drawn for one run, as a list of numbers with names.
 *
 * A plan is its text ("seed=7 nodes=3 loss=120000 ..."; what is not named is calm), so a failure is
 * one line, and shrinking is bringing numbers nearer to their calm value. Layer: test/sim. */
#ifndef TEST_SIM_PLAN_H
#define TEST_SIM_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name, calm value, what it is. ppm: per million. Drawn by sim_plan_draw(), boundaries favoured. */
#define SIM_PLAN(X)                                                                                \
	X(seed, 1, "of every random stream")                                                       \
	X(nodes, 2, "endpoints, memory nodes included")                                            \
	X(stores, 0, "of them, the first so many serve memory")                                    \
	X(calls, 8, "scripted calls to make")                                                      \
	X(memops, 0, "memory operations to make")                                                  \
	X(span_us, 1000, "over which they are spread; then faults stop")                           \
	X(burst, 1, "calls made at once")                                                          \
	X(idle_us, 0, "in the middle of the span nothing is asked for so long")                    \
	X(len_min, 0, "bytes of a request or a reply")                                             \
	X(len_max, 64, "likewise")                                                                 \
	X(later_ppm, 0, "requests answered later")                                                 \
	X(later_us, 100, "so much later at most")                                                  \
	X(never_ppm, 0, "requests answered only when their caller is gone")                        \
	X(twice_ppm, 0, "requests answered twice")                                                 \
	X(fail_ppm, 0, "requests answered with a status, half of them as never run")               \
	X(nest_ppm, 0, "handlers that call another node first")                                    \
	X(back_ppm, 0, "calls on a session that the other end made")                               \
	X(chain_ppm, 0, "messages in several segments")                                            \
	X(cancel_ppm, 0, "calls cancelled at a random time")                                       \
	X(deadline_ppm, 0, "calls with a deadline")                                                \
	X(deadline_us, 1000, "at most")                                                            \
	X(named_ppm, 0, "calls with a reply buffer of their own")                                  \
	X(refuse_ppm, 0, "NEED answered with no memory")                                           \
	X(hangup_ppm, 0, "calls after which, or during which, their session is closed")            \
	X(dry_ppm, 0, "turns that find no memory for the core's pool")                             \
	X(hush_ppm, 0, "turns that begin a silence of what is not urgent, or end one")             \
	X(hush_us, 50, "for so long at most")                                                      \
	X(mtu, 1472, "of the path")                                                                \
	X(mtu_last, 0, "of the last node's path, if that is less; 0: as the others'")              \
	X(lossless, 0, "the carrier loses nothing while both live")                                \
	X(checked, 0, "no trailer")                                                                \
	X(proven, 0, "addresses cannot be forged")                                                 \
	X(shared_ppm, 0, "messages in memory that most peers read; on a lossless path")            \
	X(sessions, 8, "of a core's table")                                                        \
	X(slots, 8, "calls per session and direction")                                             \
	X(slots_last, 0, "of the last node, if that is less; 0: as the others'")                   \
	X(keyed, 0, "the first so many nodes connect under a key, which all have")                 \
	X(inflight, 32, "calls per core and direction")                                            \
	X(reassemblies, 8, "per direction")                                                        \
	X(message_max, 1048576, "bytes")                                                           \
	X(budget, 1048576, "receive budget")                                                       \
	X(unscheduled, 65536, "bytes before a grant")                                              \
	X(order, 0, "within a class: 0 shortest first, 1 earliest deadline; 2: as they come")      \
	X(classes, 1, "that calls are of")                                                         \
	X(probe_us, 500000, "of silence before a PING")                                            \
	X(dead_us, 5000000, "of silence before the end")                                           \
	X(room, 0, "datagrams that the core says have room there; 0: it says nothing")             \
	X(joins, 0, "its neighbours of equal length cost less")                                    \
	X(turn_ns, 0, "from a datagram's arrival to the turn that takes it, at most")              \
	X(ring, 256, "datagrams that wait for a turn")                                             \
	X(full_ppm, 0, "sends that find the carrier full")                                         \
	X(mbps, 100000, "of every link")                                                           \
	X(delay_ns, 5000, "of every link")                                                         \
	X(jitter_ns, 0, "more, at most")                                                           \
	X(buffer_kb, 4096, "shared by the ports of the switch")                                    \
	X(share, 0, "eighths of what is free of it that one port may hold; 0: all")                \
	X(mark_kb, 0, "a longer queue marks ECN; 0: never")                                        \
	X(queues, 1, "of a switch's port, urgent ones first, at most 8")                           \
	X(racks, 0, "leaf switches that the nodes stand behind; 0: one switch")                    \
	X(spines, 0, "switches that join the leaves")                                              \
	X(speed, 1, "of the links between switches, times a node's")                               \
	X(spread, 0, "spines are drawn for each datagram; 0: for each pair of nodes")              \
	X(loss_ppm, 0, "datagrams lost")                                                           \
	X(loss_mask, 0, "bit i: the i-th datagram of the run is lost")                             \
	X(burst_ppm, 0, "datagrams with which a burst of loss begins")                             \
	X(burst_len, 8, "datagrams in a burst, at most")                                           \
	X(dup_ppm, 0, "datagrams that arrive twice")                                               \
	X(reorder_ppm, 0, "datagrams held back")                                                   \
	X(reorder_ns, 100000, "for so long at most")                                               \
	X(corrupt_ppm, 0, "datagrams with flipped bits, where a trailer covers them")              \
	X(truncate_ppm, 0, "datagrams cut short")                                                  \
	X(replay_ppm, 0, "datagrams sent once more, up to 10 minutes later")                       \
	X(hostile_ppm, 0, "datagrams accompanied by a forged one")                                 \
	X(partition_us, 0, "mean time between one-way partitions; 0: none")                        \
	X(crash_us, 0, "mean time between crashes; 0: none")                                       \
	X(keep_ppm, 0, "crashes of memory nodes that their memory outlives")                       \
	X(pause_us, 0, "mean time between pauses; 0: none")                                        \
	X(pages, 256, "of a memory node")                                                          \
	X(page_bits, 12, "a page is 2^12 to 2^21 bytes")                                           \
	X(clients, 2, "of memory per node")                                                        \
	X(lease_us, 1000000, "of a memory node")                                                   \
	X(sums, 0, "memory nodes keep sums of their pages")                                        \
	X(rot_ppm, 0, "memory operations before which a page loses a bit; with sums")              \
	X(cc, 0, "enum lend_cc of src/core/cc.h")                                                  \
	X(pass_us, 0, "that a ticket for 0-RTT calls lives; 0: none is given")                     \
	X(attempts, 64, "to connect with a ticket that a core remembers, a power of two")          \
	X(early_ppm, 0, "calls that may be 0-RTT")                                                 \
	X(hoard, 0,                                                                                \
	  "of whose tables the last node takes all it can: 1 records, 2 reassemblies, 3 memory, "  \
	  "4 sessions")                                                                            \
	X(audit, 1000, "events between full recounts; 0: one, at the end")

struct sim_plan {
#define X(name, calm, text) uint64_t name;
	SIM_PLAN(X)
#undef X
};

enum { SIM_PLAN_TEXT = 2048 };

struct sim_plan sim_plan_calm(void);
/* The swarm: which faults there are at all, and how often, is drawn too. */
struct sim_plan sim_plan_draw(uint64_t seed);
/* Writes what differs from calm, seed first. */
void sim_plan_write(const struct sim_plan *plan, char text[SIM_PLAN_TEXT]);
/* False: an unknown name or a bad number; *plan is then undefined. */
bool sim_plan_read(const char *text, struct sim_plan *plan);
/* The i-th number, its name and its calm value; NULL behind the last. */
const char *sim_plan_field(struct sim_plan *plan, size_t i, uint64_t **value, uint64_t *calm);

#endif

/* mem_marks - what a long run must have met at memory nodes. Part of sim/oracle/marks.h. Layer:
 * test/sim.
 */
#ifndef SIM_MEMORY_MEM_MARKS_H
#define SIM_MEMORY_MEM_MARKS_H

#define SIM_MARKS_MEM(X)                                                                           \
	X(mem_unsure, "a memory operation ended with nothing known")                               \
	X(mem_repeat, "an operation came again under its id")                                      \
	X(mem_put_repeated, "a put came again after its reply was lost")                           \
	X(mem_ran_after_forget, "an operation came after its FORGET")                              \
	X(mem_below_low, "an operation came below low water")                                      \
	X(mem_beyond_window, "an operation came above the window of ids")                          \
	X(mem_two_for_one_id, "two operations came under one id")                                  \
	X(mem_forget_before_run, "a FORGET came before its operation")                             \
	X(mem_forget_again, "a FORGET came again")                                                 \
	X(mem_forget_failed, "FORGET of what had failed")                                          \
	X(mem_forget_put, "FORGET of a put or seal that ran")                                      \
	X(mem_forget_after_handing, "FORGET of a put that another holds")                          \
	X(mem_forget_space, "FORGET of a space that was made")                                     \
	X(mem_forget_grant, "FORGET of a grant that is there")                                     \
	X(mem_forget_grant_used, "FORGET of a grant that is used up")                              \
	X(mem_forget_adopt_shared, "FORGET of an adopt, its grant is there")                       \
	X(mem_forget_adopt_transfer, "FORGET of an adopt, its grant is gone")                      \
	X(mem_forget_stands, "FORGET of a write, release or free")                                 \
	X(mem_adopt_again, "an adopt of what is held already")                                     \
	X(mem_adopt_refused, "an adopt with no grant left")                                        \
	X(mem_adopt_only_keeper, "an adopt of what only its grant keeps")                          \
	X(mem_adopt_last_share, "an adopt by the last share of SHARED")                            \
	X(mem_shared_used_up, "a SHARED grant used up before its end")                             \
	X(mem_grant_expired, "a grant ended by its ttl")                                           \
	X(mem_handed_to_nobody, "a TRANSFER that nobody adopted in time")                          \
	X(mem_handed_over, "references handed over in a call")                                     \
	X(mem_hand_lost, "references lost with the call that had them")                            \
	X(mem_read_by_other, "a read of what was handed over")                                     \
	X(mem_release_of_bearer, "a release by one who does not hold")                             \
	X(mem_release_some, "a release of several, some gone")                                     \
	X(mem_freed_while_pinned, "a snapshot freed while replies read pages")                     \
	X(mem_ended_with_holds, "a process ended with holds")                                      \
	X(mem_ended_while_pinned, "a process ended while replies read pages")                      \
	X(mem_lease_ended, "a lease ended")                                                        \
	X(mem_hangup, "a process hung up with a lease")                                            \
	X(mem_pause_forgiven, "a memory node was late and extended leases")                        \
	X(mem_old_life, "an operation of an ended life or unknown client")                         \
	X(mem_joined, "a session joined a life")                                                   \
	X(mem_join_refused, "a join without the life's key, or by another process")                \
	X(mem_bye, "a client said goodbye")                                                        \
	X(mem_client_died, "a client's process died and came back")                                \
	X(mem_restart_with_refs, "a memory node died with references out")                         \
	X(mem_kept, "a memory node died and went on with its memory and references out")           \
	X(mem_wrong_epoch, "a reference of an earlier start")                                      \
	X(mem_wrong_worker, "a reference of another worker")                                       \
	X(mem_forged, "a forged reference")                                                        \
	X(mem_right_missing, "a reference without the right")                                      \
	X(mem_beyond_slice, "a get beyond a narrowed reference")                                   \
	X(mem_gone, "a reference to what is gone")                                                 \
	X(mem_cow_shared, "a write to a page that others share")                                   \
	X(mem_cow_pinned, "a write to a page that a reply reads")                                  \
	X(mem_write_sole, "a write to a page in place")                                            \
	X(mem_seal_consume, "a seal that consumed its space")                                      \
	X(mem_lien_made, "a process was told what to map")                                         \
	X(mem_lien_outlives, "a space ended while a process maps it")                              \
	X(mem_placed, "a long message landed in pages")                                            \
	X(mem_placed_in_a_gap, "pages of a placement in one run that was free")                    \
	X(mem_placed_unused, "pages of a placement not used by its operation")                     \
	X(mem_placement_undone, "a placement whose message died")                                  \
	X(mem_pages_full, "no pages left")                                                         \
	X(mem_nodes_full, "no page table nodes left")                                              \
	X(mem_objects_full, "no room for one more object")                                         \
	X(mem_keepers_full, "no room for one more hold or grant")                                  \
	X(mem_share_of_clients, "a process asks for more clients than are left for others")        \
	X(mem_clients_full, "no room for one more client")                                         \
	X(mem_over_quota, "what a tenant's quota forbids")                                         \
	X(mem_charge_moved, "a claim that another tenant pays from then on")                       \
	X(mem_pins_over_quota, "a read of a tenant with too many under way")                       \
	X(mem_pages_rest, "no pages, for some are in quarantine")                                  \
	X(mem_paid_by_two, "a snapshot paid for by two tenants")                                   \
	X(mem_rot, "a page lost a bit")                                                            \
	X(mem_rot_read, "a read of a page that lost a bit")                                        \
	X(mem_rot_stays, "a write to a part of a page that lost a bit")                            \
	X(mem_rot_over, "a page that lost a bit was written whole")                                \
	X(mem_rot_kept, "a start with a memory that lost bits")

#endif

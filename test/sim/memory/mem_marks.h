/* mem_marks - states of memory nodes that a long run must have reached. Part of
 * test/sim/oracle/marks.h. Layer: test/sim. */
#ifndef SIM_MEMORY_MEM_MARKS_H
#define SIM_MEMORY_MEM_MARKS_H

#define SIM_MARKS_MEM(X)                                                                           \
	X(mem_unsure, "a memory operation ended with unknown outcome")                             \
	X(mem_repeat, "an operation was repeated under its id")                                    \
	X(mem_put_repeated, "a put was repeated after its reply was lost")                         \
	X(mem_ran_after_forget, "an operation arrived after its FORGET")                           \
	X(mem_below_low, "an operation arrived below low water")                                   \
	X(mem_beyond_window, "an operation arrived above the window of ids")                       \
	X(mem_two_for_one_id, "two operations arrived under one id")                               \
	X(mem_forget_before_run, "a FORGET arrived before its operation")                          \
	X(mem_forget_again, "a FORGET was repeated")                                               \
	X(mem_forget_failed, "FORGET of a failed operation")                                       \
	X(mem_forget_put, "FORGET of a put or seal that ran")                                      \
	X(mem_forget_after_handing, "FORGET of a put that another client holds")                   \
	X(mem_forget_space, "FORGET of an operation that made a space")                            \
	X(mem_forget_grant, "FORGET of an unused grant")                                           \
	X(mem_forget_grant_used, "FORGET of a used grant")                                         \
	X(mem_forget_adopt_shared, "FORGET of an adopt while its grant exists")                    \
	X(mem_forget_adopt_transfer, "FORGET of an adopt after its grant ended")                   \
	X(mem_forget_ran, "FORGET of a write, release or free")                                    \
	X(mem_adopt_again, "an adopt of a snapshot that the client already holds")                 \
	X(mem_adopt_refused, "an adopt without a grant")                                           \
	X(mem_adopt_only_keeper, "an adopt of a snapshot that only its grant kept")                \
	X(mem_adopt_last_share, "an adopt by the last use of a SHARED grant")                      \
	X(mem_shared_used_up, "a SHARED grant used up before it expired")                          \
	X(mem_grant_expired, "a grant expired")                                                    \
	X(mem_transfer_expired, "a TRANSFER expired without an adopt")                             \
	X(mem_handed_over, "references passed in a call")                                          \
	X(mem_hand_lost, "references lost with the call that carried them")                        \
	X(mem_read_by_other, "a read of a passed reference")                                       \
	X(mem_release_of_bearer, "a release by a client without a hold")                           \
	X(mem_release_some, "a release of several references, some of them gone")                  \
	X(mem_freed_while_pinned, "a snapshot freed while replies read pages")                     \
	X(mem_ended_with_holds, "a process ended with holds")                                      \
	X(mem_ended_while_pinned, "a process ended while replies read its pages")                  \
	X(mem_lease_ended, "a lease ended")                                                        \
	X(mem_hangup, "a process with a lease hung up")                                            \
	X(mem_pause_forgiven, "a memory node was late and extended the leases")                    \
	X(mem_old_life, "an operation of an ended life or an unknown client")                      \
	X(mem_joined, "a session joined a life")                                                   \
	X(mem_join_refused, "a join without the life's key, or by another process")                \
	X(mem_bye, "a client sent BYE")                                                            \
	X(mem_client_died, "a client's process died and was restarted")                            \
	X(mem_restart_with_refs, "a memory node died while references existed")                    \
	X(mem_kept, "a memory node with references restarted with its memory")                     \
	X(mem_wrong_epoch, "a reference of an earlier epoch")                                      \
	X(mem_wrong_worker, "a reference of another worker")                                       \
	X(mem_forged, "a forged reference")                                                        \
	X(mem_right_missing, "a reference without the required right")                             \
	X(mem_beyond_slice, "a get beyond a narrowed reference")                                   \
	X(mem_gone, "a reference to a snapshot that is gone")                                      \
	X(mem_cow_shared, "a write to a shared page")                                              \
	X(mem_cow_pinned, "a write to a page that a reply reads")                                  \
	X(mem_write_sole, "a write to a page in place")                                            \
	X(mem_seal_consume, "a seal that consumed its space")                                      \
	X(mem_view_mapped, "a process mapped a view")                                              \
	X(mem_view_outlives_space, "a space ended while a process maps it")                        \
	X(mem_placed, "a long message received into pages")                                        \
	X(mem_placed_in_one_run, "a placement in one run of free pages")                           \
	X(mem_placed_unused, "unused pages of a placement")                                        \
	X(mem_placement_undone, "a placement cancelled because its message died")                  \
	X(mem_pages_full, "no free page")                                                          \
	X(mem_nodes_full, "no free page table node")                                               \
	X(mem_objects_full, "no free object")                                                      \
	X(mem_keepers_full, "no free hold or grant")                                               \
	X(mem_share_of_clients, "a process refused a client that is reserved for others")          \
	X(mem_clients_full, "no free client")                                                      \
	X(mem_over_quota, "an operation refused by a tenant's quota")                              \
	X(mem_charge_moved, "a charge that moved to another tenant")                               \
	X(mem_pins_over_quota, "a read refused by the tenant's quota of pinned pages")             \
	X(mem_pages_quarantined, "no free page while some are in quarantine")                      \
	X(mem_paid_by_two, "a snapshot paid for by two tenants")                                   \
	X(mem_early, "a put before its bytes")                                                     \
	X(mem_early_landed, "its bytes received into its own pages")                               \
	X(mem_early_filled, "its bytes copied, or in other pages")                                 \
	X(mem_early_gone, "its bytes came after its end")                                          \
	X(mem_read_waits, "a read of a snapshot that is being written")                            \
	X(mem_read_waited, "a read that was answered when the bytes were there")                   \
	X(mem_read_ended, "a read that waited for a put that ended without bytes")                 \
	X(mem_rot, "a page lost a bit")                                                            \
	X(mem_rot_read, "a read of a page that lost a bit")                                        \
	X(mem_rot_stays, "a write to a part of a page that lost a bit")                            \
	X(mem_rot_over, "a damaged page was overwritten completely")                               \
	X(mem_rot_kept, "a restart with damaged memory")

#endif

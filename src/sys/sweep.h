/* sweep - removes from the runtime folder what killed processes left there.
 *
 * A memif name's lock file is dead when its lock can be taken; its socket goes with it. A socket is
 * dead when no process has it bound: one that is in /proc/net/unix is spared a connection, any
 * other is dialled, since it may be bound in another network namespace. Files of other users and
 * of other kinds stay. Layer: sys. Any thread. */
#ifndef LEND_SYS_SWEEP_H
#define LEND_SYS_SWEEP_H

/* Sweeps at the first call of a process, holding the folder's lock. What fails is left as it is. */
void lend_sweep(void);

#endif

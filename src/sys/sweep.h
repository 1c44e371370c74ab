/* sweep - removes from the runtime folder the files that killed processes left there.
 *
 * A memif name's lock file is dead when its lock can be taken; its socket is removed with it. A
 * socket is dead when no process has it bound. One that /proc/net/unix lists is not dialled; any
 * other is, since it may be bound in another network namespace. Files of other users and of other
 * kinds stay. Layer: sys. Any thread. */
#ifndef LEND_SYS_SWEEP_H
#define LEND_SYS_SWEEP_H

/* Sweeps at the first call of a process, with the folder locked. Files that cannot be checked or
 * removed stay. */
void lend_sweep(void);

#endif

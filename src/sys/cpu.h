/* cpu - which processors this thread may use, and pinning to one of them.
 * Layer: sys. Threads: everything here concerns the calling thread. */
#ifndef LEND_SYS_CPU_H
#define LEND_SYS_CPU_H

/* Returns the number of processors this thread may run on; at least 1. */
int lend_cpu_count(void);
/* Returns the system's number of the index-th of them. index wraps around: any index >= 0 is valid.
 */
int lend_cpu_at(int index);
/* Pins the calling thread, and threads that it starts from now on, to one processor, given by the
 * system's number. Returns 0, or -errno with lend_why_text() set. */
int lend_cpu_pin(int cpu);

#endif

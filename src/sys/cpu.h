/* cpu - which processors this thread may use, and being kept on one of them.
 * Layer: sys. Threads: everything here concerns the calling thread. */
#ifndef LEND_SYS_CPU_H
#define LEND_SYS_CPU_H

/* Processors this thread may run on; at least 1. */
int lend_cpu_count(void);
/* The system's number of the index-th of them, counted round: any index >= 0 names one. */
int lend_cpu_at(int index);
/* Keeps the calling thread (and threads it starts from now on) on one processor, by the system's
 * number. 0, or -errno with lend_why_text() set. */
int lend_cpu_pin(int cpu);

#endif

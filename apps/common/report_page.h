/* report_page - the frame of a report as one HTML page, with style for light and dark mode.
 * Layer: apps. Threads: any, one per file. */
#ifndef APPS_COMMON_REPORT_PAGE_H
#define APPS_COMMON_REPORT_PAGE_H

#include <stdio.h>

/* Prints everything up to the content. */
void report_page_begin(FILE *out, const char *title);
/* Prints the processor, its CPUs, the kernel and the date, in one sentence. */
void report_page_machine(FILE *out);
/* Prints everything behind the content. */
void report_page_end(FILE *out);

#endif

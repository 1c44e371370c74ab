/* last_error - this thread's last failure and how to fix it, in one line.
 * Layer: sys. Threads: each has its own text. */
#ifndef LEND_SYS_LAST_ERROR_H
#define LEND_SYS_LAST_ERROR_H

/* Stores the text and returns -err, so that a function can end with: return lend_fail(EINVAL,
 * "..."). The text names the error and, after a colon or semicolon, how to fix it. ENOMEM without
 * the second part gets the general advice. */
int lend_fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Returns the text; never NULL, "" while nothing failed. */
const char *lend_why_text(void);

#endif

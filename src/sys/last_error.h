/* last_error - this thread's last failure and its mend, in one line.
 * Layer: sys. Threads: each has its own text. */
#ifndef LEND_SYS_LAST_ERROR_H
#define LEND_SYS_LAST_ERROR_H

/* Stores the text and returns -err, so that a function can end with: return lend_fail(EINVAL,
 * "..."). The line says what was wrong and then, after a colon or semicolon, what mends it; without
 * one, ENOMEM gets what always mends it. */
int lend_fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Never NULL; "" while nothing failed. */
const char *lend_why_text(void);

#endif

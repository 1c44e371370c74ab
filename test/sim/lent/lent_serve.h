/* lent_serve - what servers and callers of lent runs share. Layer: test/sim. */
#ifndef TEST_SIM_LENT_SERVE_H
#define TEST_SIM_LENT_SERVE_H

#include <stdint.h>

/* Methods: nothing is fetched; mapped; copied. */
enum { LENT_METHOD = 7, LENT_METHODS = 3 };
extern uint32_t lent_reading; /* the call whose bytes a read begins to read now; UINT32_MAX: none */

#endif

#include "sys/ref_counts.h"

struct lend_ref_counts lend_ref_counts;

/* training - what the worker of lend bench training and its parameter server share.
 *
 * A request is a slice's number, 32 bit, and the gradients of its parameters; the reply is the
 * parameters after the server added the gradients to them. Both are 32-bit words, so that sums are
 * exact. Layer: apps. */
#ifndef APPS_BENCH_TRAINING_H
#define APPS_BENCH_TRAINING_H

#include "apps/bench/training_model.h"
#include "cli/option_table.h"

enum { TRAINING_HEAD = 4 }; /* bytes of a request before the gradients */

/* Options of both programs. */
struct training_shape {
	enum training_kind kind;
	unsigned scale;
	uint64_t slice; /* bytes */
};
#define TRAINING_SHAPE_INIT                                                                        \
	{                                                                                          \
		.scale = 1, .slice = 128 << 10                                                     \
	}
#define TRAINING_SHAPE_OPTIONS(TYPE, FIELD)                                                        \
	OPT_CHOICE(TYPE, FIELD.kind, "model", "NAME", training_kind_names,                         \
		   "resnet50 (default; 25.6 M parameters), vit-b16 (86.6 M) or gpt2 (124 M)"),     \
	    OPT_NUMBER(TYPE, FIELD.scale, "scale", 1, 10000,                                       \
		       "Divide the parameters of each layer by N (1)"),                            \
	    OPT_SIZE(TYPE, FIELD.slice, "slice", 4096, 16 << 20,                                   \
		     "Longest message; longer layers are split (128K)")
/* Makes the model; app_bad() when it has too many slices, or one that splits a parameter. */
void training_shape_model(const struct training_shape *shape, struct training_model *model);

#endif

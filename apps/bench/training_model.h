/* training_model - the layers of public models, cut into the slices that training exchanges.
 *
 * A layer counts its weights, biases and the normalization behind it. The sizes follow from each
 * model's published shape. Layer: apps. Threads: any. Lives by value in its owner. */
#ifndef APPS_BENCH_TRAINING_MODEL_H
#define APPS_BENCH_TRAINING_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum { TRAINING_LAYERS_MAX = 64, TRAINING_SLICES_MAX = 4096 };
enum { TRAINING_WORD = 4 }; /* bytes of a parameter, and of its gradient */

enum training_kind { TRAINING_RESNET50, TRAINING_VIT, TRAINING_GPT2 };
extern const char *const training_kind_names[]; /* and NULL */

struct training_layer {
	uint32_t parameters;   /* 0: the layer shares those of another one */
	double work;           /* multiplications of a forward step, relative to other layers */
	unsigned first, after; /* its slices: [first, after) */
};

struct training_slice {
	uint64_t at; /* bytes from the first parameter of the model */
	uint32_t len;
	uint16_t layer;
	uint8_t priority; /* of its exchange: layers that the forward step needs first are urgent */
};

struct training_model {
	unsigned layers, slices;
	uint64_t bytes;                                   /* of all parameters */
	double work;                                      /* of all layers */
	struct training_layer layer[TRAINING_LAYERS_MAX]; /* in the order of the forward step */
	struct training_slice slice[TRAINING_SLICES_MAX];
};

/* Makes the table. Each layer has 1/scale of its parameters, at least one, in slices of at most
 * slice bytes, a multiple of TRAINING_WORD. Returns 0, or -ENOSPC: more than TRAINING_SLICES_MAX
 * slices. */
int training_model_make(struct training_model *model, enum training_kind kind, unsigned scale,
			uint32_t slice);

/* Returns the seconds of an iteration over a link without headers and delays that sends whole
 * slices, one after the other: those of the first layers first, or in FIFO order. compute: seconds
 * of an iteration, of which the forward step takes the part `forward`; transfer: of all bytes. */
double training_model_bound(const struct training_model *model, double compute, double forward,
			    double transfer, bool fifo);

#endif

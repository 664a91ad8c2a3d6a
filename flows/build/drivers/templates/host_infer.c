/* SPDX-License-Identifier: Apache-2.0 */
#include "@name@_infer.h"

#include <float.h>
#include <stddef.h>
#include <string.h>

/*% include "pieces/exact.c" %*/

enum { PIECE = 4096, AXES = @AXES@ };

/* Addresses in the engine's memory that products work on. */
@ADDRESSES@

@HELPERS@
/* -- the network -- */

@TABLES@
/*% include "pieces/prepare.c" %*/

int @name@_infer(const @name@_host *host, const @name@_inputs *inputs,
                 const @name@_outputs *outputs)
{
    int status;

@BODY@
    return @NAME@_OK;
}

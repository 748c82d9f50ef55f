/* $provenance

   $what.
   In integers alone. `flags` may be NULL, else it is set: $flags. */

#ifndef $guard
#define $guard

static inline $code $name($given, uint8_t *flags)
{
$body
}

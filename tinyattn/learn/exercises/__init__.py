"""The exercises, one file each: words, the forward that is given, what is to be written, shapes to try, hints."""

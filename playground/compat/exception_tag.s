# The tag of C++ exceptions, which every object refers to. A WebAssembly
# exception of this tag carries the address of the C++ exception.
	.globl	__cpp_exception
	.tagtype	__cpp_exception i32
__cpp_exception:

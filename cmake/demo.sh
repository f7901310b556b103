#!/bin/sh
# What `make demo` shows: demo.sh COMMAND, from the top of the source folder.
set -eu
stickybit=$1
capture=tests/golden/h200/ties_s384_d64_c0.safetensors

show() {
  printf '\n\033[1m$ stickybit %s\033[0m\n' "$*"
  "$stickybit" "$@"
}

echo
echo "A call of FlashAttention-3, captured on an NVIDIA H200: 2 heads, 384 queries, 384 keys, d = 64, BF16."
echo "1. Every bit of its O and LSE and of the gradients dQ, dK, dV, and of other kernels' on the same inputs, again, on this CPU:"
show validate "$capture"
echo
echo "2. How far O is from the mathematical value, in which direction, column by column, and at which rounding; then the same of the"
echo "   gradients, stage by stage; what was predicted without emulating; and in words what is wrong and what would help."
echo "   Here every product in dP is positive and the tensor core cuts what it cannot hold: dP is never too high."
show bias "$capture" --schedule fa3 --attribute --html build/demo_bias.html
echo
echo "3. One element, from the scores of its row to its last bit:"
show explain attention "$capture" --schedule fa3 --tensor o --at 0,17,5 --html build/demo_element.html
echo
echo "   and one of dQ, whose error came in with the stored O:"
show explain grad "$capture" --schedule fa3 --tensor dq --at 0,17,5 --level paragraph
echo
echo "4. The rounding that started it all: a left-over of -0.00087 turns a tie, and the error changes its sign:"
show explain add --format bf16 -2.40625 -0.0008654594421386719 -2.296875
echo
echo "5. The first step at which two builds of one kernel part:"
printf '\n\033[1m$ stickybit %s\033[0m\n' "explain attention $capture --diff fa2 fa2-torch"
"$stickybit" explain attention "$capture" --diff fa2 fa2-torch || [ $? -eq 1 ]
echo
echo "The same with pictures: build/demo_bias.html and build/demo_element.html, which any browser opens."

#!/bin/sh
# The command's pages in a browser: check_pages.sh COMMAND GOLDEN_DIR WORK_DIR SOURCE_DIR
# Every page: its figures, at most 2 MB, and all that check_page.py asks.
set -eu
stickybit=$1
ties=$2/h200/ties_s384_d64_c0.safetensors
padded=$2/h200/nando_b1_q150_k256_h2x2_d64_c0.safetensors
one_key=$2/h200/one_b1_q1_k200_h2x2_d64_c0.safetensors
mkdir -p "$3"
cd "$3"
rm -f ./*.html

page() { # NAME FIGURES ARGUMENTS...
  name=$1
  figures=$2
  shift 2
  "$stickybit" "$@" --html "$name.html" >/dev/null
  size=$(wc -c <"$name.html")
  if [ "$size" -ge 2000000 ]; then
    echo "$name.html: $size bytes, expected less than 2 MB"
    exit 1
  fi
  python3 "$check" --figures "$figures" "$name.html"
}

check=$4/tests/figure/browser/check_page.py
page o 7 explain attention "$ties" --schedule fa3 --at 0,17,5
page split 4 explain attention "$one_key" --schedule fa2-torch-splitkv --at 1,0,3
page lse 4 explain attention "$ties" --schedule cudnn --tensor lse --at 1,200
page dq 5 explain grad "$ties" --schedule fa2-torch --at 1,383,63
page dk 5 explain grad "$ties" --schedule fa3 --fix gproj --tensor dk --at 0,34,5
page ds 3 explain grad "$ties" --schedule fa3 --tensor ds --at 0,17,34
page nan 1 explain grad "$padded" --schedule fa3 --at 0,149,5
page add 2 explain add -2.40625 -0.0008654594421386719 -2.296875
page dot 3 explain dot --a 1,0x1p-25,0x1p-24,-3 --b 1,1.5,1,0x1p-13
page exp2 1 explain exp2 -0.3
page softmax 5 explain softmax --schedule fa3 --scores 40,20,60,35 --values 0.5,1,2,-0.25
page bias 12 bias "$ties" --schedule fa3 --attribute

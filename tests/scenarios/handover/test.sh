# 2 MB of progress, and then what failed.
awk 'BEGIN { for (line = 0; line < 50000; line++) print "row " line " migrated without any remark to be made" }'
echo "MISMATCH-9: row 40000 has lost its date" 
exit 1
